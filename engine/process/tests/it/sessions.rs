//! Commands inside a container whose streams somebody holds.

use pillion_process::{SessionStreams, read_now};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{World, shell, start};

/// Everything that comes until the stream is at its end. The end of a terminal is an error.
async fn read_all(mut stream: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_command_is_given_its_input_and_keeps_its_outputs_apart() {
    for world in World::both() {
        let pod = world.pod("web");
        let process = start(&pod, shell("exec sleep 1000")).await;
        let command = ["sh", "-c", "cat; echo wrong >&2; exit 3"].map(str::to_owned);
        let mut session = process.open(&command, false).await.unwrap();
        let SessionStreams { mut stdin, stdout, stderr, .. } = session.streams;
        stdin.write_all(b"hello").await.unwrap();
        drop(stdin);
        let (output, errors) = tokio::join!(read_all(stdout), read_all(stderr.unwrap()));
        assert_eq!((output.as_str(), errors.as_str()), ("hello", "wrong\n"));
        assert_eq!(session.exit.wait().await, Ok(3));

        let mut session = process.open(&["nothing".to_owned()], false).await.unwrap();
        let error = session.exit.wait().await.unwrap_err();
        assert_eq!(error.to_string(), "exec: \"nothing\": executable file not found in $PATH");
        process.kill().await;
        process.wait().await;
        assert!(process.open(&command, false).await.is_err());
    }
}

#[tokio::test]
async fn a_command_has_a_terminal_of_its_own() {
    for world in World::both() {
        let pod = world.pod("web");
        let process = start(&pod, shell("exec sleep 1000")).await;
        let command =
            ["sh", "-c", "read line; stty size; test -t 1 && test -t 2 && echo $line >/dev/tty"].map(str::to_owned);
        let mut session = process.open(&command, true).await.unwrap();
        let SessionStreams { mut stdin, stdout, stderr, terminal } = session.streams;
        assert!(stderr.is_none());
        terminal.as_ref().unwrap().resize(97, 31).unwrap();
        stdin.write_all(b"hello\n").await.unwrap();
        assert_eq!(session.exit.wait().await, Ok(0));
        // The far end is closed only with its last user.
        drop((stdin, terminal));
        assert_eq!(read_all(stdout).await, "hello\r\n31 97\r\nhello\r\n");
        process.kill().await;
        process.wait().await;
    }
}

#[tokio::test]
async fn what_a_command_has_written_to_its_terminal_is_there_when_it_has_ended() {
    for world in World::both() {
        let pod = world.pod("web");
        let process = start(&pod, shell("exec sleep 1000")).await;
        for _ in 0..50 {
            let mut session = process.open(&["echo", "last words"].map(str::to_owned), true).await.unwrap();
            assert_eq!(session.exit.wait().await, Ok(0));
            let mut bytes = [0; 32];
            let length = read_now(&session.streams.stdout, &mut bytes);
            assert_eq!(String::from_utf8_lossy(&bytes[..length]), "last words\r\n");
        }
        process.kill().await;
        process.wait().await;
    }
}

#[tokio::test]
async fn a_command_that_nobody_holds_ends() {
    for world in World::both() {
        let pod = world.pod("web");
        let process = start(&pod, shell("exec sleep 1000")).await;
        let command = ["sh", "-c", "echo ready; exec sleep 4712.5"].map(str::to_owned);
        let mut session = process.open(&command, false).await.unwrap();
        let mut ready = [0; 6];
        session.streams.stdout.read_exact(&mut ready).await.unwrap();
        let SessionStreams { mut stdout, .. } = session.streams;
        drop(session.exit);
        // The stream is at its end when nobody writes to it any more.
        assert_eq!(stdout.read(&mut ready).await.unwrap(), 0);
        process.kill().await;
        process.wait().await;
    }
}
