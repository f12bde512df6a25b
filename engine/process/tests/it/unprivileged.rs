//! All of these tests, without root's privileges.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use nix::unistd::Uid;

use crate::world::SUPERVISOR;

#[test]
fn everything_works_for_a_user_without_privileges() {
    // Somebody else's tests are such already.
    if !Uid::effective().is_root() || std::env::var_os(SUPERVISOR).is_some() {
        return;
    }
    // The user may not see what cargo has built.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let copy = |from: &str, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        to
    };
    let tests = copy(std::env::current_exe().unwrap().to_str().unwrap(), "tests");
    let supervisor = copy(env!("CARGO_BIN_EXE_pillion-process"), "supervisor");
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
        .arg(tests)
        .args(["--test-threads", "2"])
        .env(SUPERVISOR, supervisor)
        .env("TMPDIR", folder.path())
        .current_dir("/")
        .output()
        .expect("setpriv of util-linux is needed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
