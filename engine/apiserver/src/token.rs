//! Tokens of service accounts: JSON Web Tokens, signed with a key of the cluster's own (ES256).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};

/// Why there is no signer.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The operating system gave no randomness.
    #[error("cannot make a key to sign service account tokens with")]
    Generate,
    /// What was kept is no key.
    #[error(
        "the key that signs service account tokens is not a PKCS #8 key on the curve P-256; remove it, and a new one is made (existing tokens then end)"
    )]
    Key,
}

/// Signs and checks tokens of service accounts. Clones share the key.
#[derive(Clone)]
pub struct TokenSigner {
    key: Arc<EcdsaKeyPair>,
    document: Arc<[u8]>,
}

impl TokenSigner {
    /// A signer with a new key.
    pub fn generate() -> Result<TokenSigner, TokenError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| TokenError::Generate)?;
        TokenSigner::from_pkcs8(document.as_ref())
    }

    /// A signer with a key that was kept.
    pub fn from_pkcs8(document: &[u8]) -> Result<TokenSigner, TokenError> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &SystemRandom::new())
            .map_err(|_| TokenError::Key)?;
        Ok(TokenSigner { key: Arc::new(key), document: document.into() })
    }

    /// The key, to be kept for the next run.
    pub fn pkcs8(&self) -> &[u8] {
        &self.document
    }

    pub(crate) fn sign(&self, claims: &Value) -> Result<String, TokenError> {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(&json!({"alg": "ES256", "typ": "JWT"})), encode(claims));
        let signature = self.key.sign(&SystemRandom::new(), text.as_bytes()).map_err(|_| TokenError::Generate)?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// What a token of ours claims; `None` for any other text. Whether it still holds is for the caller to see.
    pub(crate) fn verify(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        public.verify(text.as_bytes(), &signature).ok()?;
        let (_, claims) = text.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_by_the_key_that_signed_it_and_by_no_other() {
        let signer = TokenSigner::generate().unwrap();
        let token = signer.sign(&json!({"sub": "system:serviceaccount:default:web"})).unwrap();
        assert_eq!(signer.verify(&token).unwrap()["sub"], "system:serviceaccount:default:web");
        let again = TokenSigner::from_pkcs8(signer.pkcs8()).unwrap();
        assert!(again.verify(&token).is_some());
        assert!(TokenSigner::generate().unwrap().verify(&token).is_none());
        assert!(signer.verify(&format!("{token}x")).is_none());
    }
}
