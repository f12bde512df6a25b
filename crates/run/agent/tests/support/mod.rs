//! The real binary beside an embedded API server and an HTTP server whose answers a test changes.
// Each test uses its part of this, and helpers of tests are tests as well.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use pillion_apiserver::ApiServer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

pub const POD: &str = "/api/v1/namespaces/default/pods/web-0";
pub const RESULTS: &str = "/api/v1/namespaces/default/configmaps/sidecar-result";

/// An API server with one pod, `web-0`.
#[derive(Clone)]
pub struct Cluster {
    pub server: ApiServer,
    pub port: u16,
    pub writes: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Cluster {
    pub async fn start() -> Cluster {
        let server = ApiServer::new(pillion_apiserver::Config::in_memory());
        server.bootstrap().await.unwrap();
        let mut cluster = Cluster { server, port: 0, writes: Arc::default() };
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        cluster.create("/api/v1/namespaces/default/serviceaccounts", account).await;
        let spec = json!({"containers": [{"name": "main", "image": "app"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}, "spec": spec});
        cluster.create("/api/v1/namespaces/default/pods", pod).await;
        let (router, writes) = (cluster.server.router(), Arc::clone(&cluster.writes));
        let recorded = Router::new().fallback(move |request: Request<Body>| {
            let (router, writes) = (router.clone(), Arc::clone(&writes));
            async move {
                let (head, body) = request.into_parts();
                let body = to_bytes(body, 1 << 20).await.unwrap();
                if head.method != "GET" {
                    let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
                    writes.lock().unwrap().push((format!("{} {}", head.method, head.uri.path()), value));
                }
                router.oneshot(Request::from_parts(head, Body::from(body))).await
            }
        });
        cluster.port = serve(recorded).await;
        cluster
    }

    pub async fn create(&self, path: &str, object: Value) {
        let request = Request::post(path).header("content-type", "application/json");
        let answer = self.server.router().oneshot(request.body(Body::from(object.to_string())).unwrap()).await.unwrap();
        let (status, text) = read(answer).await;
        assert!(status.is_success(), "{status} {text}");
    }

    pub async fn merge(&self, path: &str, patch: Value) {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let answer = self.server.router().oneshot(request.body(Body::from(patch.to_string())).unwrap()).await.unwrap();
        let (status, text) = read(answer).await;
        assert!(status.is_success(), "{status} {text}");
    }

    pub async fn get(&self, path: &str) -> Value {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let (_, text) = read(self.server.router().oneshot(request).await.unwrap()).await;
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Waits until an object is as it should be.
    pub async fn until(&self, path: &str, what: impl Fn(&Value) -> bool) -> Value {
        let found = eventually(async || Some(self.get(path).await).filter(|object| what(object))).await;
        if let Some(object) = found {
            return object;
        }
        panic!("{path} never was as it should be: {:#}", self.get(path).await)
    }

    pub async fn annotation(&self, key: &str, value: &str) {
        self.until(POD, |pod| pod["metadata"]["annotations"][key] == value).await;
    }

    /// The pod's entry in `sidecar-result`.
    pub async fn entry(&self, what: impl Fn(&Value) -> bool) -> Value {
        let parse = |object: &Value| {
            serde_json::from_str(object["data"]["web-0"].as_str().unwrap_or("null")).unwrap_or(Value::Null)
        };
        parse(&self.until(RESULTS, |object| what(&parse(object))).await)
    }
}

async fn read(answer: Response) -> (StatusCode, String) {
    let status = answer.status();
    let body = to_bytes(answer.into_body(), 1 << 24).await.unwrap();
    (status, String::from_utf8_lossy(&body).into_owned())
}

pub async fn serve(router: Router) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

/// Status, body and headers.
type Page = (u16, Vec<u8>, Vec<(String, String)>);

/// What an HTTP server answers, by path.
#[derive(Clone, Default)]
pub struct Site {
    answers: Arc<Mutex<BTreeMap<String, Page>>>,
    pub seen: Arc<Mutex<Vec<String>>>,
    pub queries: Arc<Mutex<Vec<String>>>,
    pub port: u16,
}

impl Site {
    pub async fn start() -> Site {
        let mut site = Site::default();
        let router = Router::new().fallback(answer).with_state(site.clone());
        site.port = serve(router).await;
        site
    }

    pub fn set(&self, path: &str, status: u16, body: impl AsRef<[u8]>) {
        self.set_with(path, status, body, &[]);
    }

    pub fn set_with(&self, path: &str, status: u16, body: impl AsRef<[u8]>, headers: &[(&str, &str)]) {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.answers.lock().unwrap().insert(path.to_owned(), (status, body.as_ref().to_vec(), headers));
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

async fn answer(State(site): State<Site>, request: Request<Body>) -> Response {
    let path = request.uri().path().to_owned();
    site.seen.lock().unwrap().push(path.clone());
    site.queries.lock().unwrap().extend(request.uri().query().map(str::to_owned));
    if path == "/endless" {
        let chunks = endless(vec![0u8; 64 << 10]);
        return Response::new(chunks);
    }
    let found = site.answers.lock().unwrap().get(&path).cloned();
    let (status, body, headers) = found.unwrap_or((404, b"<html>not found</html>".to_vec(), Vec::new()));
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(axum::http::HeaderName::try_from(name).unwrap(), axum::http::HeaderValue::try_from(value).unwrap());
    }
    response
}

/// A body without end.
fn endless(chunk: Vec<u8>) -> Body {
    struct Endless(Vec<u8>);
    impl hyper::body::Body for Endless {
        type Data = bytes::Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, Self::Error>>> {
            let data = bytes::Bytes::from(self.0.clone());
            std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(data))))
        }
    }
    Body::new(Endless(chunk))
}

/// Looks again and again, at real processes, until there is something; `None` after a minute or more.
pub async fn eventually<T>(mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    for _ in 0..3000 {
        if let Some(found) = look().await {
            return Some(found);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    None
}

/// A process of the pod that writes a line for each SIGHUP, and the agent beside it. Signals that come before it has looked are one.
const POD_SCRIPT: &str = r#"[ -z "$NEIGHBOUR" ] || bash "$FOLDER/counter.sh" $NEIGHBOUR &
unshare --pid --fork bash "$FOLDER/stranger.sh" &
until [ -e "$FOLDER/stranger" ] && { [ -e "$FOLDER/up" ] || [ -z "$NEIGHBOUR" ]; }; do sleep 0.01; done
"$@"
exit $?"#;

const COUNTER: &str = r#"trap 'echo "$(cat "$FOLDER/files/app.conf" 2>/dev/null)" >> "$FOLDER/hups"' HUP
touch "$FOLDER/up"
while :; do sleep 0.02; done
"#;

/// A process with the same command line in a process namespace below, as a pod's on the node: it writes a line for each SIGHUP.
const STRANGER: &str = r#"cat > "$FOLDER/stranger-counter.sh" <<'END'
trap 'echo signalled >> "$FOLDER/stranger"' HUP
echo up > "$FOLDER/stranger.new"; mv "$FOLDER/stranger.new" "$FOLDER/stranger"
while :; do sleep 0.1; done
END
exec -a "bash nginx: master process nginx" bash "$FOLDER/stranger-counter.sh"
"#;

/// The real binary, in a process namespace of its own.
pub struct Agent {
    pub child: Child,
    pub folder: TempDir,
    pub port: u16,
    pub log: Arc<Mutex<String>>,
}

impl Agent {
    /// Starts it in a folder, and waits until it listens.
    pub fn start_in(folder: TempDir, cluster: &Cluster, config: &str, kill_at: &str) -> Agent {
        let mut agent = Agent::spawn(folder, cluster, config, kill_at);
        let said =
            |text: &str| text.lines().find_map(|line| line.split_once("listening on ")).map(|(_, at)| at.to_owned());
        for _ in 0..3000 {
            let address = said(&agent.log.lock().unwrap());
            if let Some(address) = address {
                agent.port = address.rsplit(':').next().unwrap().parse().unwrap();
                return agent;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not listen: {}", agent.log.lock().unwrap());
    }

    pub fn spawn(folder: TempDir, cluster: &Cluster, config: &str, kill_at: &str) -> Agent {
        let source = ["--config".to_owned(), folder.path().join("config.yaml").display().to_string()];
        Agent::spawn_with(folder, cluster, config, kill_at, &source)
    }

    /// The same with the configuration from somewhere else.
    pub fn spawn_with(folder: TempDir, cluster: &Cluster, config: &str, kill_at: &str, source: &[String]) -> Agent {
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        std::fs::write(folder.path().join("token"), "none").unwrap();
        // Where a volume would be mounted.
        std::fs::create_dir_all(folder.path().join("files")).unwrap();
        let annotations = folder.path().join("annotations");
        if !annotations.exists() {
            std::fs::write(annotations, "").unwrap();
        }
        let _ = std::fs::remove_file(folder.path().join("up"));
        let _ = std::fs::remove_file(folder.path().join("stranger"));
        std::fs::write(folder.path().join("stranger.sh"), STRANGER).unwrap();
        std::fs::write(folder.path().join("counter.sh"), COUNTER).unwrap();
        // A process namespace of its own, as a pod has: the agent signals nobody where it sees the whole machine.
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let mut child = command
            .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
            // Under `nohup` a shell could not react to the signal.
            .args(["env", "--default-signal=HUP", "bash", "-c", POD_SCRIPT, "pod"])
            .arg(env!("CARGO_BIN_EXE_pillion-agent"))
            .args(source)
            .arg("--api-server")
            .arg(format!("http://127.0.0.1:{}", cluster.port))
            .arg("--account")
            .arg(folder.path())
            .arg("--plugin-dir")
            .arg(folder.path())
            .arg("--pod-info")
            .arg(folder.path())
            .env("POD_NAME", "web-0")
            .env("POD_NAMESPACE", "default")
            .env("FOLDER", folder.path())
            // A folder without a neighbour is one of a pod whose main process does not run yet.
            .env("NEIGHBOUR", if folder.path().join("alone").exists() { "" } else { "nginx: master process nginx" })
            .env("PILLION_AGENT_KILL_AT", kill_at)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, lines) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut log = lines.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Agent { child, folder, port: 0, log }
    }

    pub fn start(cluster: &Cluster, config: &str) -> Agent {
        Agent::start_in(tempfile::tempdir().unwrap(), cluster, config, "")
    }

    pub fn files(&self) -> std::path::PathBuf {
        self.folder.path().join("files")
    }

    /// How many SIGHUPs the neighbour has got.
    pub fn hups(&self) -> usize {
        std::fs::read_to_string(self.folder.path().join("hups")).unwrap_or_default().lines().count()
    }

    pub async fn hups_reach(&self, count: usize) {
        self.until_hups(&format!("{count} signals"), |hups| hups.lines().count() >= count).await;
    }

    /// Waits until the neighbour has looked into `app.conf` and seen this, and was asked to more than `before` times.
    pub async fn rereads(&self, before: usize, content: &str) {
        let has_seen = |hups: &str| hups.lines().count() > before && hups.lines().last() == Some(content);
        self.until_hups(&format!("more than {before} signals, the last for {content:?}"), has_seen).await;
    }

    async fn until_hups(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let hups = || std::fs::read_to_string(self.folder.path().join("hups")).unwrap_or_default();
        let seen = eventually(async || is_so(&hups()).then_some(())).await;
        assert!(seen.is_some(), "no {what} in {:?}: {}", hups(), self.log.lock().unwrap());
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) {
        let ended = eventually(async || self.child.try_wait().unwrap()).await;
        assert!(ended.is_some(), "it is still running: {}", self.log.lock().unwrap());
    }

    /// Replaces the configuration.
    pub fn configure(&self, config: &str) {
        let (new, file) = (self.folder.path().join("config.new"), self.folder.path().join("config.yaml"));
        std::fs::write(&new, config).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        self.request("GET", path, "", "", None).await
    }

    pub async fn post(&self, form: &str) -> (u16, String) {
        self.request("POST", "/hot-update", "application/x-www-form-urlencoded", form, None).await
    }

    pub async fn request(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: &str,
        token: Option<&str>,
    ) -> (u16, String) {
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let headers = format!("Content-Type: {media}\r\n{token}");
        self.send(&format!("{method} {path}"), "localhost", &headers, body).await
    }

    /// Sends a request to a host by a name, with more headers.
    pub async fn send(&self, request: &str, host: &str, headers: &str, body: &str) -> (u16, String) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let length = body.len();
        let head = format!("{request} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    pub async fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status").await.1).unwrap_or_default()
    }

    /// Waits until the status is as it should be.
    pub async fn until(&self, what: impl Fn(&Value) -> bool) -> Value {
        let found = eventually(async || Some(self.status().await).filter(|status| what(status))).await;
        if let Some(status) = found {
            return status;
        }
        let status = self.status().await;
        panic!("the status never was as it should be: {status:#}\n{}", self.log.lock().unwrap())
    }

    /// Its folder, for the next one.
    pub fn into_folder(mut self) -> TempDir {
        let _ = self.child.kill();
        let _ = self.child.wait();
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
