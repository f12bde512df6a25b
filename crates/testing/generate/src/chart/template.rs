//! From an object with marks in it to the text of a template.

use std::fmt::Write as _;

use anyhow::ensure;
use pillion::render;
use serde_json::Value;

/// What a mark becomes.
enum Insert {
    /// A text: quoted where it is the whole value.
    Text(String),
    /// A number.
    Plain(String),
    /// An object or a list.
    Block(String),
    /// A field that is left out when its value is empty.
    Optional(String),
    /// The value of an argument that is left out when it is empty.
    Argument(String),
    /// Items of a list, of which there may be none.
    Items(String),
    /// A field that is left out unless something is set. The mark is in its key.
    If(String),
}

/// Marks, and what each of them becomes.
#[derive(Default)]
pub(super) struct Template {
    inserts: Vec<Insert>,
}

impl Template {
    fn mark(&mut self, insert: Insert) -> String {
        self.inserts.push(insert);
        mark(self.inserts.len() - 1)
    }

    pub(super) fn text(&mut self, expression: &str) -> String {
        self.mark(Insert::Text(expression.to_owned()))
    }

    pub(super) fn plain(&mut self, expression: &str) -> String {
        self.mark(Insert::Plain(expression.to_owned()))
    }

    pub(super) fn block(&mut self, expression: &str) -> String {
        self.mark(Insert::Block(expression.to_owned()))
    }

    pub(super) fn optional(&mut self, expression: &str) -> String {
        self.mark(Insert::Optional(expression.to_owned()))
    }

    pub(super) fn argument(&mut self, expression: &str) -> String {
        self.mark(Insert::Argument(expression.to_owned()))
    }

    pub(super) fn items(&mut self, expression: &str) -> String {
        self.mark(Insert::Items(expression.to_owned()))
    }

    /// Leaves a field out unless the expression is set.
    pub(super) fn only_if(&mut self, object: &mut Value, key: &str, expression: &str) {
        let mark = self.mark(Insert::If(expression.to_owned()));
        if let Some(value) = object.as_object_mut().and_then(|object| object.shift_remove(key)) {
            object[format!("{key}{mark}")] = value;
        }
    }

    /// The text of one document.
    pub(super) fn document(&self, object: &Value, condition: Option<&str>) -> anyhow::Result<String> {
        let yaml = render::yaml(object)?;
        ensure!(!yaml.contains("{{"), "Helm would take this for an expression: {yaml}");
        let mut text = String::new();
        let lines: Vec<&str> = yaml.lines().collect();
        let mut rest = lines.as_slice();
        while let Some((line, after)) = rest.split_first() {
            rest = self.line(line, after, &mut text)?;
        }
        Ok(match condition {
            Some(condition) => format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"),
            None => text,
        })
    }

    /// Writes a line, and gives the lines that follow what was written.
    fn line<'a>(&self, line: &str, after: &'a [&'a str], text: &mut String) -> anyhow::Result<&'a [&'a str]> {
        let indent = line.len() - line.trim_start().len();
        let spaces = &line[..indent];
        let found = self.inserts.iter().enumerate().find(|(i, _)| line.contains(&mark(*i)));
        let Some((i, insert)) = found else {
            writeln!(text, "{line}")?;
            return Ok(after);
        };
        let mark = mark(i);
        let key = line.trim_start().trim_end_matches(&format!(": {mark}"));
        match insert {
            Insert::Text(expression) => {
                let is_whole = line.ends_with(&format!(": {mark}")) || line.ends_with(&format!("- {mark}"));
                let quote = if is_whole { " | quote" } else { "" };
                let line = line.replace(&mark, &format!("{{{{ {expression}{quote} }}}}"));
                // There may be another one in it.
                return self.line(&line, after, text);
            }
            Insert::Plain(expression) => writeln!(text, "{}", line.replace(&mark, &format!("{{{{ {expression} }}}}")))?,
            Insert::Block(expression) => {
                write!(text, "{spaces}{key}:\n{spaces}  {{{{- toYaml {expression} | nindent {} }}}}\n", indent + 2)?;
            }
            Insert::Optional(expression) => {
                let value = format!("{{{{- toYaml . | nindent {} }}}}", indent + 2);
                write!(
                    text,
                    "{spaces}{{{{- with {expression} }}}}\n{spaces}{key}:\n{spaces}  {value}\n{spaces}{{{{- end }}}}\n"
                )?;
            }
            Insert::Argument(expression) => {
                let line = line.replace(&mark, "{{ . }}");
                write!(text, "{spaces}{{{{- with {expression} }}}}\n{line}\n{spaces}{{{{- end }}}}\n")?;
            }
            Insert::Items(expression) => {
                let items = format!("{{{{- toYaml . | nindent {indent} }}}}");
                write!(text, "{spaces}{{{{- with {expression} }}}}\n{spaces}{items}\n{spaces}{{{{- end }}}}\n")?;
            }
            Insert::If(expression) => {
                writeln!(text, "{spaces}{{{{- if {expression} }}}}\n{}", line.replace(&mark, ""))?;
                let belongs = |line: &&&str| {
                    let deeper = line.len() - line.trim_start().len();
                    deeper > indent || (deeper == indent && line.trim_start().starts_with("- "))
                };
                let inside = after.iter().take_while(belongs).count();
                let (inside, outside) = after.split_at(inside);
                let mut rest = inside;
                while let Some((line, after)) = rest.split_first() {
                    rest = self.line(line, after, text)?;
                }
                writeln!(text, "{spaces}{{{{- end }}}}")?;
                return Ok(outside);
            }
        }
        Ok(after)
    }
}

/// A word that no manifest has and that YAML writes without quotes.
fn mark(i: usize) -> String {
    format!("helmMark{i}x")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_become_expressions() {
        let mut template = Template::default();
        let (name, number) = (template.text(".name"), template.plain(".number"));
        let (block, optional) = (template.block(".block"), template.optional(".optional"));
        let (argument, items) = (template.argument(".argument"), template.items(".items"));
        let mut object = json!({
            "name": name, "inside": format!("--name={name}"), "list": [name],
            "deep": {"block": block, "optional": optional},
            "args": [format!("--more={argument}"), items],
            "number": number, "volumes": [{"a": 1, "b": name}], "last": 1,
        });
        template.only_if(&mut object, "volumes", ".secret");
        let text = template.document(&object, Some(".enabled")).unwrap();
        let expected = r"{{- if .enabled }}
name: {{ .name | quote }}
inside: --name={{ .name }}
list:
- {{ .name | quote }}
deep:
  block:
    {{- toYaml .block | nindent 4 }}
  {{- with .optional }}
  optional:
    {{- toYaml . | nindent 4 }}
  {{- end }}
args:
{{- with .argument }}
- --more={{ . }}
{{- end }}
{{- with .items }}
{{- toYaml . | nindent 0 }}
{{- end }}
number: {{ .number }}
last: 1
{{- if .secret }}
volumes:
- a: 1
  b: {{ .name | quote }}
{{- end }}
{{- end }}
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_helm_would_take_for_an_expression_is_refused() {
        assert!(Template::default().document(&json!({"a": "{{ b }}"}), None).is_err());
    }
}
