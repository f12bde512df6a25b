//! Probes and lifecycle hooks.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, LifecycleHandler, Probe, SleepAction, TCPSocketAction,
};

use super::super::containers::Role;
use super::one_of;
use super::ports::{validate_number, validate_number_or_name};
use crate::field::{Error, Path};

pub(super) fn validate(container: &Container, role: Role, path: &Path, errors: &mut Vec<Error>) {
    let restart_policy = container.restart_policy.as_deref();
    if role == Role::Sidecar {
        if restart_policy.is_some() {
            errors.push(Error::forbidden(&path.child("restartPolicy"), "may not be set for non-init containers"));
        }
    } else {
        one_of(restart_policy, &["Always"], &path.child("restartPolicy"), errors);
    }

    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    if role == Role::Init {
        let hooks = container.lifecycle.is_some().then_some("lifecycle");
        for field in
            hooks.into_iter().chain(probes.iter().filter(|(_, probe)| probe.is_some()).map(|(field, _)| *field))
        {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(Error::forbidden(&path.child(field), detail));
        }
        return;
    }
    for (field, probe) in probes {
        if let Some(probe) = probe {
            validate_probe(probe, field == "readinessProbe", &path.child(field), errors);
        }
    }
    if let Some(lifecycle) = &container.lifecycle {
        let path = path.child("lifecycle");
        for (field, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
            if let Some(hook) = hook {
                Handler::from(hook).validate(&path.child(field), errors);
            }
        }
    }
}

fn validate_probe(probe: &Probe, is_readiness: bool, path: &Path, errors: &mut Vec<Error>) {
    Handler::from(probe).validate(path, errors);
    for (field, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        if let Some(value) = value.filter(|value| *value < 0) {
            errors.push(Error::invalid(&path.child(field), value, "must be greater than or equal to 0"));
        }
    }
    // 0 is the absent value, and 1 its default.
    if let Some(threshold) = probe.success_threshold.filter(|threshold| !is_readiness && *threshold > 1) {
        errors.push(Error::invalid(&path.child("successThreshold"), threshold, "must be 1"));
    }
    if let Some(seconds) = probe.termination_grace_period_seconds {
        let path = path.child("terminationGracePeriodSeconds");
        if is_readiness {
            errors.push(Error::invalid(&path, seconds, "must not be set for readinessProbes"));
        } else if seconds <= 0 {
            errors.push(Error::invalid(&path, seconds, "must be greater than 0"));
        }
    }
}

/// What a probe or a hook does: one thing.
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http_get: Option<&'a HTTPGetAction>,
    tcp_socket: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

impl<'a> From<&'a Probe> for Handler<'a> {
    fn from(probe: &'a Probe) -> Handler<'a> {
        Handler {
            exec: probe.exec.as_ref(),
            http_get: probe.http_get.as_ref(),
            tcp_socket: probe.tcp_socket.as_ref(),
            grpc: probe.grpc.as_ref(),
            sleep: None,
        }
    }
}

impl<'a> From<&'a LifecycleHandler> for Handler<'a> {
    fn from(hook: &'a LifecycleHandler) -> Handler<'a> {
        Handler {
            exec: hook.exec.as_ref(),
            http_get: hook.http_get.as_ref(),
            tcp_socket: hook.tcp_socket.as_ref(),
            grpc: None,
            sleep: hook.sleep.as_ref(),
        }
    }
}

impl Handler<'_> {
    fn validate(&self, path: &Path, errors: &mut Vec<Error>) {
        let given = [
            ("exec", self.exec.is_some()),
            ("httpGet", self.http_get.is_some()),
            ("tcpSocket", self.tcp_socket.is_some()),
            ("grpc", self.grpc.is_some()),
            ("sleep", self.sleep.is_some()),
        ];
        let mut given = given.into_iter().filter_map(|(field, given)| given.then_some(field));
        if given.next().is_none() {
            errors.push(Error::required(path, "must specify a handler type"));
        }
        for field in given {
            errors.push(Error::forbidden(&path.child(field), "may not specify more than 1 handler type"));
        }
        if self.exec.is_some_and(|exec| exec.command.as_ref().is_none_or(Vec::is_empty)) {
            errors.push(Error::required(&path.child("exec").child("command"), ""));
        }
        if let Some(get) = self.http_get {
            validate_http_get(get, &path.child("httpGet"), errors);
        }
        if let Some(socket) = self.tcp_socket {
            validate_number_or_name(&socket.port, &path.child("tcpSocket").child("port"), errors);
        }
        if let Some(grpc) = self.grpc {
            validate_number(grpc.port, &path.child("grpc").child("port"), errors);
        }
        // How long is too long depends on the pod's grace period.
        if let Some(sleep) = self.sleep.filter(|sleep| sleep.seconds < 0) {
            errors.push(Error::invalid(&path.child("sleep").child("seconds"), sleep.seconds, "must be non-negative"));
        }
    }
}

fn validate_http_get(get: &HTTPGetAction, path: &Path, errors: &mut Vec<Error>) {
    validate_number_or_name(&get.port, &path.child("port"), errors);
    let scheme = get.scheme.as_deref().filter(|scheme| !scheme.is_empty());
    one_of(scheme, &["HTTP", "HTTPS"], &path.child("scheme"), errors);
    for (i, header) in get.http_headers.iter().flatten().enumerate() {
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if header.name.is_empty() || !header.name.bytes().all(good) {
            let path = path.child("httpHeaders").index(i).child("name");
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-'";
            errors.push(Error::invalid(&path, header.name.as_str(), detail));
        }
    }
}
