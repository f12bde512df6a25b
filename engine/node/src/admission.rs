//! Whether the node has room for a pod.

use k8s_openapi::api::core::v1::Pod;
use pillion_lifecycle::resources;
use pillion_quantity::Quantity;

use crate::config::Capacity;

/// What pods need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) pods: u64,
    pub(crate) cpu_millis: i128,
    pub(crate) memory: i128,
}

/// Why a pod cannot run here: reason and message of its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Demand {
    /// The effective requests of one pod.
    pub(crate) fn of(pod: &Pod) -> Demand {
        let requests = resources::requests(pod);
        let of = |name: &str| requests.get(name).copied().unwrap_or(Quantity::ZERO);
        Demand { pods: 1, cpu_millis: of("cpu").milli_value(), memory: of("memory").value() }
    }

    pub(crate) fn with(self, other: Demand) -> Demand {
        Demand {
            pods: self.pods + other.pods,
            cpu_millis: self.cpu_millis + other.cpu_millis,
            memory: self.memory + other.memory,
        }
    }

    pub(crate) fn without(self, other: Demand) -> Demand {
        Demand {
            pods: self.pods.saturating_sub(other.pods),
            cpu_millis: self.cpu_millis - other.cpu_millis,
            memory: self.memory - other.memory,
        }
    }
}

/// Refuses a pod for which there is no room beside the others. A pod that asks for nothing of a kind fits even a full node.
pub(crate) fn admit(demand: Demand, used: Demand, capacity: &Capacity) -> Result<(), Rejection> {
    let all = (capacity.cpu.milli_value(), capacity.memory.value());
    let reject = |reason, resource: &str, requested: i128, used: i128, capacity: i128| {
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        Err(Rejection { reason, message })
    };
    if used.pods + demand.pods > capacity.pods {
        return reject("OutOfpods", "pods", demand.pods.into(), used.pods.into(), capacity.pods.into());
    }
    if demand.cpu_millis > 0 && demand.cpu_millis > all.0 - used.cpu_millis {
        return reject("OutOfcpu", "cpu", demand.cpu_millis, used.cpu_millis, all.0);
    }
    if demand.memory > 0 && demand.memory > all.1 - used.memory {
        return reject("OutOfmemory", "memory", demand.memory, used.memory, all.1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_room_is_rejected_with_the_numbers() {
        let capacity = Capacity {
            cpu: "2".parse().unwrap(),
            memory: "1Ki".parse().unwrap(),
            ephemeral_storage: "1Gi".parse().unwrap(),
            pods: 3,
        };
        let used = Demand { pods: 2, cpu_millis: 1500, memory: 1024 };
        let table = [
            (Demand { pods: 1, cpu_millis: 500, memory: 0 }, None),
            (Demand { pods: 1, cpu_millis: 0, memory: 0 }, None),
            (
                Demand { pods: 1, cpu_millis: 501, memory: 1 },
                Some(("OutOfcpu", "Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000")),
            ),
            (
                Demand { pods: 1, cpu_millis: 0, memory: 1 },
                Some((
                    "OutOfmemory",
                    "Node didn't have enough resource: memory, requested: 1, used: 1024, capacity: 1024",
                )),
            ),
            (
                Demand { pods: 2, cpu_millis: 0, memory: 0 },
                Some(("OutOfpods", "Node didn't have enough resource: pods, requested: 2, used: 2, capacity: 3")),
            ),
        ];
        for (demand, expected) in table {
            let expected = expected.map(|(reason, message)| Rejection { reason, message: message.into() });
            assert_eq!(admit(demand, used, &capacity).err(), expected);
        }
    }
}
