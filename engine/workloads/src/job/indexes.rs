//! Sets of completion indexes, in the text form that a Job's status has: `0,2-5,7`.

use std::fmt;

/// Indexes as intervals, in order, with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Reads the text form. What is at or above `completions` is left out, and so is what cannot be read.
    pub(super) fn parse(text: &str, completions: i32) -> Indexes {
        let mut intervals: Vec<(i32, i32)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
            if first >= completions {
                break;
            }
            append(&mut intervals, (first, last.min(completions - 1)));
        }
        Indexes(intervals)
    }

    /// This set and another.
    pub(super) fn union(&self, other: &Indexes) -> Indexes {
        let mut all: Vec<(i32, i32)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut intervals = Vec::with_capacity(all.len());
        for interval in all {
            append(&mut intervals, interval);
        }
        Indexes(intervals)
    }

    /// How many indexes there are.
    pub(super) fn total(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub(super) fn has(&self, index: i32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many indexes are in both.
    pub(super) fn overlap(&self, other: &Indexes) -> i32 {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut total = 0;
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            total += (a.1.min(b.1) - a.0.max(b.0) + 1).max(0);
            if a.1 < b.1 {
                ours.next();
            } else {
                theirs.next();
            }
        }
        total
    }

    /// The first `count` indexes below `completions` that are not in this set. The work is bounded by the intervals and the count.
    pub(super) fn first_absent(&self, count: usize, completions: i32) -> Vec<i32> {
        let mut absent = Vec::with_capacity(count);
        let mut candidate = 0;
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            absent.extend((candidate..first.min(completions)).take(count - absent.len()));
            candidate = candidate.max(last.saturating_add(1));
        }
        absent
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<T: IntoIterator<Item = i32>>(indexes: T) -> Indexes {
        let mut sorted: Vec<i32> = indexes.into_iter().collect();
        sorted.sort_unstable();
        let mut intervals = Vec::new();
        for index in sorted {
            append(&mut intervals, (index, index));
        }
        Indexes(intervals)
    }
}

/// Adds an interval that begins no earlier than the last one.
fn append(intervals: &mut Vec<(i32, i32)>, interval: (i32, i32)) {
    match intervals.last_mut() {
        Some(last) if interval.0 <= last.1.saturating_add(1) => last.1 = last.1.max(interval.1),
        _ => intervals.push(interval),
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (first, last) in &self.0 {
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                1 => write!(f, "{separator}{first},{last}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_text_form_is_that_of_kubernetes() {
        for (indexes, text) in [
            (vec![], ""),
            (vec![0], "0"),
            (vec![3, 4], "3,4"),
            (vec![0, 2, 3, 4, 6, 7], "0,2-4,6,7"),
            (vec![1, 1, 5], "1,5"),
        ] {
            assert_eq!(indexes.into_iter().collect::<Indexes>().to_string(), text);
        }
    }

    #[test]
    fn what_is_outside_or_unreadable_is_left_out() {
        for (text, completions, read) in
            [("0-9", 5, "0-4"), ("0,3,4,7", 4, "0,3"), ("0,x,2", 9, "0,2"), ("", 3, ""), ("2,3-5,6", 9, "2-6")]
        {
            assert_eq!(Indexes::parse(text, completions).to_string(), read, "{text}");
        }
    }

    proptest! {
        #[test]
        fn they_are_sets(a in prop::collection::btree_set(0..60, 0..30), b in prop::collection::btree_set(0..60, 0..30), count in 0..20_usize) {
            let (x, y): (Indexes, Indexes) = (a.iter().copied().collect(), b.iter().copied().collect());
            let both: BTreeSet<i32> = a.union(&b).copied().collect();
            prop_assert_eq!(x.union(&y), both.iter().copied().collect());
            prop_assert_eq!(Indexes::parse(&x.to_string(), 60), x.clone());
            prop_assert_eq!(usize::try_from(x.total()).unwrap(), a.len());
            prop_assert_eq!(usize::try_from(x.overlap(&y)).unwrap(), a.intersection(&b).count());
            prop_assert!((0..60).all(|index| x.has(index) == a.contains(&index)));
            let absent: Vec<i32> = (0..60).filter(|index| !a.contains(index)).take(count).collect();
            prop_assert_eq!(x.first_absent(count, 60), absent);
        }
    }
}
