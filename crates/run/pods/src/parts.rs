//! The parts of pods, each of which some controllers need.

/// What a controller reads of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPart {
    /// What rollouts, repairs and the places of partitions read.
    Rollout,
    /// The resources of containers and how they are doing.
    Sized,
    /// Pods whose sidecars the manager ends.
    Marked,
    /// Pods with an in-pod agent.
    Agent,
}

impl PodPart {
    const ALL: [PodPart; 4] = [PodPart::Rollout, PodPart::Sized, PodPart::Marked, PodPart::Agent];

    /// The part in a set of parts.
    pub(crate) fn bit(self) -> u32 {
        1 << (self as u32)
    }

    pub(crate) fn is_in(self, parts: u32) -> bool {
        parts & self.bit() != 0
    }
}

/// How many controllers need each part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Users([usize; PodPart::ALL.len()]);

impl Users {
    pub(crate) fn add(&mut self, part: PodPart) {
        self.0[part as usize] += 1;
    }

    pub(crate) fn remove(&mut self, part: PodPart) {
        self.0[part as usize] -= 1;
    }

    /// The parts that at least one controller needs.
    pub(crate) fn parts(self) -> u32 {
        let needed = PodPart::ALL.into_iter().zip(self.0).filter(|(_, users)| *users > 0);
        needed.map(|(part, _)| part.bit()).sum()
    }
}
