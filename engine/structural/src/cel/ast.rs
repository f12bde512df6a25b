//! The tree of an expression.

/// Deeper expressions are refused, as in cel-go; it also bounds every recursion over the tree.
pub(super) const MAX_DEPTH: usize = 250;

/// One expression.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    /// Index of what the checker knows about it.
    pub(super) id: usize,
    /// Where it is in the text, in characters: at the operator, for one that has an operator.
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Literal(Literal),
    Ident(String),
    /// The accumulator of the innermost comprehension. A step uses it up: what it yields is the next one.
    Accumulator {
        take: bool,
    },
    /// A variable of a policy: its place among them.
    Composed(usize),
    /// A field; with `test`, whether it is there.
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    /// Elements, and whether each is optional.
    List(Vec<(Expr, bool)>),
    Map(Vec<Entry>),
    Struct {
        name: String,
    },
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// A loop: the accumulator starts at `init`, becomes `step` for every item while `condition` holds, and gives `result`.
#[derive(Clone, Debug)]
pub(super) struct Comprehension {
    pub(super) range: Expr,
    pub(super) variable: String,
    pub(super) second_variable: Option<String>,
    /// Name of the accumulator where the expression can refer to it, as in `optMap`.
    pub(super) accumulator: Option<String>,
    pub(super) init: Expr,
    pub(super) condition: Expr,
    pub(super) step: Expr,
    pub(super) result: Expr,
}

impl Expr {
    /// `a.b.c` as a name, if it is one.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }
}
