//! The parts of pods, each of which some controllers need.

/// What a controller reads of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What rollouts, repairs and the places of partitions read.
    Rollout,
    /// The resources of containers and how they are doing.
    Sized,
    /// Pods whose sidecars the manager ends.
    Marked,
    /// Pods with an in-pod agent.
    Agent,
}

impl Part {
    const ALL: [Part; 4] = [Part::Rollout, Part::Sized, Part::Marked, Part::Agent];
}

/// A set of parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(u32);

impl Parts {
    pub(crate) fn of(bits: u32) -> Parts {
        Parts(bits)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn has(self, part: Part) -> bool {
        self.0 & bit(part) != 0
    }

    pub(crate) fn has_all(self, others: Parts) -> bool {
        others.0 & !self.0 == 0
    }

    pub(crate) fn is_only(self, part: Part) -> bool {
        self.0 == bit(part)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// How many controllers need each part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Users([usize; Part::ALL.len()]);

impl Users {
    pub(crate) fn add(&mut self, part: Part) {
        if let Some(users) = self.0.get_mut(part as usize) {
            *users += 1;
        }
    }

    pub(crate) fn remove(&mut self, part: Part) {
        if let Some(users) = self.0.get_mut(part as usize) {
            *users = users.saturating_sub(1);
        }
    }

    /// The parts that at least one controller needs.
    pub(crate) fn parts(self) -> Parts {
        let needed = Part::ALL.into_iter().zip(self.0).filter(|(_, users)| *users > 0);
        Parts(needed.map(|(part, _)| bit(part)).sum())
    }
}

fn bit(part: Part) -> u32 {
    1 << (part as u32)
}
