//! The arguments of `pillion recommend`.

// Documentation of arguments is what `--help` prints: words in it stand without backticks.
#![allow(clippy::doc_markdown)]

use clap::{Args, ValueEnum};

use super::ClusterArgs;

/// `pillion recommend`
#[derive(Debug, Args)]
pub struct RecommendArgs {
    /// A VerticalPodAutoscaler [default: all of the namespace]
    #[arg(value_name = "VPA")]
    pub name: Option<String>,
    /// Those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = RecommendOutput::Table)]
    pub output: RecommendOutput,
    /// The order of the lines in a table or a CSV file
    #[arg(long, value_enum, default_value_t = RecommendOrder::Name)]
    pub sort_by: RecommendOrder,
    /// Draw the usage that the autoscaler has seen, in the terminal or with -o svg
    #[arg(long, requires = "name", conflicts_with_all = ["all_namespaces", "explain"])]
    pub histogram: bool,
    /// Explain how each number is computed from the usage that is stored
    ///
    /// With the default settings of the recommender; samples since the last checkpoint are not in it.
    #[arg(long, requires = "name", conflicts_with_all = ["output", "all_namespaces"])]
    pub explain: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// How `pillion recommend` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecommendOutput {
    /// For people
    Table,
    /// For programs
    Json,
    /// For spreadsheets
    Csv,
    /// Workloads with the requests that are recommended, for kubectl apply --server-side with a field manager of its own
    Patch,
    /// A picture of the usage that one autoscaler has seen
    Svg,
}

/// In which order `pillion recommend` lists containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecommendOrder {
    /// By namespace, autoscaler and container
    Name,
    /// CPU, then memory, the largest savings first
    Saves,
}
