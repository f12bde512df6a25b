//! Prints the schemas that programs carry as one JSON object: the path of each file below the root of the workspace, and its text.
//!
//! `cargo xtask gen` writes the files. The code that describes every type of Kubernetes is several times as large as the schemas, so it is
//! compiled only for this program.

mod builtin;

use pillion_api::{sidecarset, vpa};
use serde_json::json;

fn main() {
    let files = json!({
        "crates/model/api/src/sidecarset/crd/versions.json": format!("{}\n", sidecarset::crd::versions()),
        "crates/model/api/src/vpa/crd/definitions.json": format!("{}\n", vpa::crd::definitions()),
        "engine/apiserver/src/openapi/builtin.json": builtin::definitions(),
    });
    println!("{files}");
}
