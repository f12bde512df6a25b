//! Sessions of kubectl with a real API server and with the embedded one.

use std::path::Path;

use anyhow::{Context as _, ensure};
use pillion_kubectl::{Embedded, Server, Session, play};
use similar::TextDiff;

macro_rules! sessions {
    ($($name:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn $name() -> anyhow::Result<()> {
                both_servers_make_kubectl_print_the_same(stringify!($name)).await
            }
        )+

        #[test]
        fn every_session_is_held() {
            let held = [$(concat!(stringify!($name), ".console")),+];
            for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sessions")).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                assert!(name == "manifests" || held.contains(&name.as_str()), "{name} has no test");
            }
        }
    };
}

sessions! {
    access_is_reviewed,
    changes_are_watched,
    conditions_are_waited_for,
    custom_resources_are_objects_too,
    differences_are_shown,
    kinds_are_explained,
    labels_and_annotations_are_set,
    manifests_are_applied,
    manifests_are_applied_by_the_server,
    nodes_are_kept,
    objects_are_created,
    objects_are_deleted,
    objects_are_described,
    objects_are_edited_and_replaced,
    objects_are_got,
    objects_are_patched,
    pods_without_a_node_cannot_be_entered,
    rollouts_are_followed,
    sidecarsets_are_served,
    what_is_served_is_listed,
    workloads_are_scaled,
    wrong_input_has_a_clear_answer,
}

async fn both_servers_make_kubectl_print_the_same(name: &str) -> anyhow::Result<()> {
    let kubeconfig = std::env::var_os("KUBECONFIG")
        .context("no cluster: run this with `cargo xtask cluster run --control-plane-only -- …`")?;
    let real = Server { kubeconfig: kubeconfig.into() };
    let server = Embedded::start().await?;
    let embedded = Server { kubeconfig: server.kubeconfig() };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("sessions/{name}.console"));
    let session = Session::parse(&std::fs::read_to_string(&file).with_context(|| file.display().to_string())?)?;

    // One name for both, so that tables have the same columns.
    let namespace = format!("shop-{}", std::iter::repeat_with(fastrand::lowercase).take(5).collect::<String>());
    let printed = |server: Server| {
        let (session, namespace) = (session.clone(), namespace.clone());
        tokio::task::spawn_blocking(move || play(&server, &session, &namespace))
    };
    let (by_real, by_embedded) = tokio::join!(printed(real), printed(embedded));

    let (by_real, by_embedded) = (by_real??, by_embedded??);

    let mut recorded = session.clone().recorded(&by_real);
    if std::env::var_os("UPDATE_SESSIONS").is_some() {
        recorded = recorded.recorded_differences(&by_embedded);
        std::fs::write(&file, recorded.to_string())?;
    } else {
        same("a real server", &session, &recorded)?;
    }
    for step in recorded.steps() {
        let same = step.embedded.as_ref().is_some_and(|embedded| embedded.printed == step.printed);
        ensure!(!same, "{:?} is no difference any more: take it out", step.command);
    }
    let wanted = recorded.as_embedded();
    same("the embedded server", &wanted, &wanted.clone().recorded(&by_embedded))
}

fn same(server: &str, wanted: &Session, printed: &Session) -> anyhow::Result<()> {
    let (wanted, printed) = (wanted.to_string(), printed.to_string());
    let diff = TextDiff::from_lines(&wanted, &printed);
    ensure!(wanted == printed, "with {server} kubectl prints (+) not what is expected (-):\n{}", diff.unified_diff());
    Ok(())
}
