//! Containers that read what clients write, and clients that come and go.

use std::collections::BTreeSet;

use pillion_process::{AttachedOutput, Input, LogOptions, Process, ProcessSpec};

use crate::world::{World, first_line, line_with, shell, start, text};

fn reading(script: &str, input: Input) -> ProcessSpec {
    ProcessSpec { input, ..shell(script) }
}

/// What comes until the container ends.
async fn rest(mut output: AttachedOutput) -> String {
    let mut bytes = Vec::new();
    while let Some((_, piece)) = output.next().await {
        bytes.extend(piece);
    }
    String::from_utf8(bytes).unwrap()
}

async fn ended_with(process: &Process) -> i32 {
    process.wait().await.code
}

#[tokio::test]
async fn a_container_reads_what_one_client_writes_and_its_end() {
    for world in World::both() {
        let pod = world.pod("web");
        let once = Input { stdin: true, once: true, terminal: false };
        let process = start(&pod, reading("echo ready; cat; echo wrong >&2; exit 3", once)).await;
        first_line(&process).await;
        let client = process.attach();
        let stdin = client.stdin.unwrap();
        stdin.write_all(b"hello\n").await.unwrap();
        assert!(stdin.close().await);
        assert_eq!(ended_with(&process).await, 3);
        // Two pipes have no order between them.
        let lines = |text: String| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(lines(rest(client.output).await), BTreeSet::from(["hello", "wrong"].map(str::to_owned)));
        let logged = text(&process, LogOptions::default()).await;
        assert_eq!(lines(logged), BTreeSet::from(["hello", "ready", "wrong"].map(str::to_owned)));
        // Nobody can write any more, and there is nothing more to read.
        assert!(stdin.write_all(b"more").await.is_err());
        assert_eq!(rest(process.attach().output).await, "");
    }
}

#[tokio::test]
async fn the_input_of_a_container_stays_open_for_the_next_client() {
    for world in World::both() {
        let pod = world.pod("web");
        let often = Input { stdin: true, ..Input::default() };
        let process =
            start(&pod, reading("while read line; do echo got $line; test $line != end || exit 0; done", often)).await;
        for word in ["one", "two"] {
            let stdin = process.attach().stdin.unwrap();
            stdin.write_all(format!("{word}\n").as_bytes()).await.unwrap();
            assert!(!stdin.close().await);
            line_with(&process, word).await;
        }
        let client = process.attach();
        client.stdin.unwrap().write_all(b"end\n").await.unwrap();
        assert_eq!(ended_with(&process).await, 0);
        assert_eq!(rest(client.output).await, "got end\n");
    }
}

#[tokio::test]
async fn a_container_has_a_terminal_of_its_own() {
    for world in World::both() {
        let pod = world.pod("web");
        let terminal = Input { stdin: true, once: true, terminal: true };
        let script = "test -t 0 && test -t 1 && test -t 2 && printf '$ '; read line; stty size; echo $line >/dev/tty";
        let process = start(&pod, reading(script, terminal)).await;
        let mut client = process.attach();
        client.terminal.as_ref().unwrap().resize(97, 31).unwrap();
        client.stdin.as_ref().unwrap().write_all(b"hello\n").await.unwrap();
        assert_eq!(ended_with(&process).await, 0);
        let mut seen = String::new();
        while let Some((_, bytes)) = client.output.next().await {
            seen.push_str(&String::from_utf8(bytes).unwrap());
        }
        // Whether the prompt or the echo comes first, or the prompt before the client, is a matter of time.
        assert!(seen.ends_with("31 97\r\nhello\r\n"), "{seen:?}");
        assert!(text(&process, LogOptions::default()).await.contains("$ "));
    }
}

#[tokio::test]
async fn a_container_that_is_not_to_read_reads_nothing() {
    for world in World::both() {
        let pod = world.pod("web");
        let process = start(&pod, shell("cat; echo nothing")).await;
        assert!(process.attach().stdin.is_none());
        assert_eq!(ended_with(&process).await, 0);
        let process = start(
            &pod,
            ProcessSpec {
                attempt: 1,
                ..reading("test -t 0 && echo a terminal", Input { terminal: true, ..Input::default() })
            },
        )
        .await;
        assert!(process.attach().stdin.is_none());
        assert_eq!(ended_with(&process).await, 0);
        assert_eq!(text(&process, LogOptions::default()).await, "a terminal\r\n");
    }
}
