//! The key that is kept from run to run, so that tokens stay good.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pillion_apiserver::TokenSigner;

use crate::config::StartError;

/// The signer of service account tokens, the same in every run.
pub(crate) fn token_signer(folder: &Path) -> Result<TokenSigner, StartError> {
    let path = folder.join("tokens.key");
    match std::fs::read(&path) {
        Ok(key) => TokenSigner::from_pkcs8(&key).map_err(StartError::Token),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let signer = TokenSigner::generate().map_err(StartError::Token)?;
            write_secret(&path, signer.pkcs8())?;
            Ok(signer)
        }
        Err(source) => Err(StartError::Key { path, source }),
    }
}

/// Written beside and renamed: a crash leaves a whole key or none.
fn write_secret(path: &Path, content: &[u8]) -> Result<(), StartError> {
    let write = || {
        let beside = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|source| StartError::Key { path: path.to_path_buf(), source })
}
