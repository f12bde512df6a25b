//! The Kubernetes container as Kruise's libraries (Kubernetes 1.32) know it, and what newer ones add.

use super::Kind::{Bool, Int32, Int64, IntOrString, List, Object, Quantity, String};
use super::{QUANTITIES, STRINGS, Shape, always, if_set, later, or_null, unless_empty};

pub(in super::super) static CONTAINER: Shape = Shape::new(&[
    always("name", String),
    unless_empty("image", String),
    unless_empty("command", STRINGS),
    unless_empty("args", STRINGS),
    unless_empty("workingDir", String),
    unless_empty("ports", List(&Object(&PORT))),
    unless_empty("envFrom", List(&Object(&ENV_FROM))),
    unless_empty("env", List(&Object(&ENV))),
    always("resources", Object(&RESOURCES)),
    unless_empty("resizePolicy", List(&Object(&RESIZE_POLICY))),
    if_set("restartPolicy", String),
    later("restartPolicyRules", List(&Object(&RESTART_RULE))),
    unless_empty("volumeMounts", List(&Object(&VOLUME_MOUNT))),
    unless_empty("volumeDevices", List(&Object(&VOLUME_DEVICE))),
    if_set("livenessProbe", Object(&PROBE)),
    if_set("readinessProbe", Object(&PROBE)),
    if_set("startupProbe", Object(&PROBE)),
    if_set("lifecycle", Object(&LIFECYCLE)),
    unless_empty("terminationMessagePath", String),
    unless_empty("terminationMessagePolicy", String),
    unless_empty("imagePullPolicy", String),
    if_set("securityContext", Object(&SECURITY_CONTEXT)),
    unless_empty("stdin", Bool),
    unless_empty("stdinOnce", Bool),
    unless_empty("tty", Bool),
]);

static PORT: Shape = Shape::new(&[
    unless_empty("name", String),
    unless_empty("hostPort", Int32),
    always("containerPort", Int32),
    unless_empty("protocol", String),
    unless_empty("hostIP", String),
]);

static ENV_FROM: Shape = Shape::new(&[
    unless_empty("prefix", String),
    if_set("configMapRef", Object(&OPTIONAL_OBJECT)),
    if_set("secretRef", Object(&OPTIONAL_OBJECT)),
]);

static OPTIONAL_OBJECT: Shape = Shape::new(&[unless_empty("name", String), if_set("optional", Bool)]);

static ENV: Shape =
    Shape::new(&[always("name", String), unless_empty("value", String), if_set("valueFrom", Object(&ENV_SOURCE))]);

static ENV_SOURCE: Shape = Shape::new(&[
    if_set("fieldRef", Object(&FIELD_REF)),
    if_set("resourceFieldRef", Object(&RESOURCE_FIELD_REF)),
    if_set("configMapKeyRef", Object(&KEY_OF_OBJECT)),
    if_set("secretKeyRef", Object(&KEY_OF_OBJECT)),
    later("fileKeyRef", Object(&KEY_OF_FILE)),
]);

pub(super) static FIELD_REF: Shape = Shape::new(&[unless_empty("apiVersion", String), always("fieldPath", String)]);

pub(super) static RESOURCE_FIELD_REF: Shape =
    Shape::new(&[unless_empty("containerName", String), always("resource", String), always("divisor", Quantity)]);

static KEY_OF_OBJECT: Shape =
    Shape::new(&[unless_empty("name", String), always("key", String), if_set("optional", Bool)]);

static KEY_OF_FILE: Shape = Shape::new(&[
    always("volumeName", String),
    always("path", String),
    always("key", String),
    if_set("optional", Bool),
]);

static RESOURCES: Shape = Shape::new(&[
    unless_empty("limits", QUANTITIES),
    unless_empty("requests", QUANTITIES),
    unless_empty("claims", List(&Object(&RESOURCE_CLAIM))),
]);

static RESOURCE_CLAIM: Shape = Shape::new(&[always("name", String), unless_empty("request", String)]);

static RESIZE_POLICY: Shape = Shape::new(&[always("resourceName", String), always("restartPolicy", String)]);

static RESTART_RULE: Shape =
    Shape::new(&[unless_empty("action", String), if_set("exitCodes", Object(&RESTART_EXIT_CODES))]);

static RESTART_EXIT_CODES: Shape =
    Shape::new(&[unless_empty("operator", String), unless_empty("values", List(&Int32))]);

static VOLUME_MOUNT: Shape = Shape::new(&[
    always("name", String),
    unless_empty("readOnly", Bool),
    if_set("recursiveReadOnly", String),
    always("mountPath", String),
    unless_empty("subPath", String),
    if_set("mountPropagation", String),
    unless_empty("subPathExpr", String),
]);

static VOLUME_DEVICE: Shape = Shape::new(&[always("name", String), always("devicePath", String)]);

static PROBE: Shape = Shape::new(&[
    if_set("exec", Object(&EXEC)),
    if_set("httpGet", Object(&HTTP_GET)),
    if_set("tcpSocket", Object(&TCP_SOCKET)),
    if_set("grpc", Object(&GRPC)),
    unless_empty("initialDelaySeconds", Int32),
    unless_empty("timeoutSeconds", Int32),
    unless_empty("periodSeconds", Int32),
    unless_empty("successThreshold", Int32),
    unless_empty("failureThreshold", Int32),
    if_set("terminationGracePeriodSeconds", Int64),
]);

static EXEC: Shape = Shape::new(&[unless_empty("command", STRINGS)]);

static HTTP_GET: Shape = Shape::new(&[
    unless_empty("path", String),
    always("port", IntOrString),
    unless_empty("host", String),
    unless_empty("scheme", String),
    unless_empty("httpHeaders", List(&Object(&HTTP_HEADER))),
]);

static HTTP_HEADER: Shape = Shape::new(&[always("name", String), always("value", String)]);

static TCP_SOCKET: Shape = Shape::new(&[always("port", IntOrString), unless_empty("host", String)]);

static GRPC: Shape = Shape::new(&[always("port", Int32), or_null("service", String)]);

static LIFECYCLE: Shape = Shape::new(&[
    if_set("postStart", Object(&LIFECYCLE_HANDLER)),
    if_set("preStop", Object(&LIFECYCLE_HANDLER)),
    later("stopSignal", String),
]);

static LIFECYCLE_HANDLER: Shape = Shape::new(&[
    if_set("exec", Object(&EXEC)),
    if_set("httpGet", Object(&HTTP_GET)),
    if_set("tcpSocket", Object(&TCP_SOCKET)),
    if_set("sleep", Object(&SLEEP)),
]);

static SLEEP: Shape = Shape::new(&[always("seconds", Int64)]);

static SECURITY_CONTEXT: Shape = Shape::new(&[
    if_set("capabilities", Object(&CAPABILITIES)),
    if_set("privileged", Bool),
    if_set("seLinuxOptions", Object(&SE_LINUX_OPTIONS)),
    if_set("windowsOptions", Object(&WINDOWS_OPTIONS)),
    if_set("runAsUser", Int64),
    if_set("runAsGroup", Int64),
    if_set("runAsNonRoot", Bool),
    if_set("readOnlyRootFilesystem", Bool),
    if_set("allowPrivilegeEscalation", Bool),
    if_set("procMount", String),
    if_set("seccompProfile", Object(&PROFILE)),
    if_set("appArmorProfile", Object(&PROFILE)),
]);

static CAPABILITIES: Shape = Shape::new(&[unless_empty("add", STRINGS), unless_empty("drop", STRINGS)]);

static SE_LINUX_OPTIONS: Shape = Shape::new(&[
    unless_empty("user", String),
    unless_empty("role", String),
    unless_empty("type", String),
    unless_empty("level", String),
]);

static WINDOWS_OPTIONS: Shape = Shape::new(&[
    if_set("gmsaCredentialSpecName", String),
    if_set("gmsaCredentialSpec", String),
    if_set("runAsUserName", String),
    if_set("hostProcess", Bool),
]);

static PROFILE: Shape = Shape::new(&[always("type", String), if_set("localhostProfile", String)]);
