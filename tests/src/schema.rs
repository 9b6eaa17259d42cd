//! JSON Schema (draft 2020-12), as much of it as `drover status --schema` uses, strictly: a keyword that is not
//! known here is a fault, too.

use serde_json::Value;

/// Everything in `value` that `schema` does not allow, each with its place; empty if all is well.
pub fn faults(value: &Value, schema: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(value, schema, "$", &mut faults);
    faults
}

fn check(value: &Value, schema: &Value, place: &str, faults: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        faults.push(format!("{place}: the schema is no object"));
        return;
    };
    if keywords.get("description").is_none_or(|text| text.as_str().is_none_or(str::is_empty)) {
        // What the schema says about keys of any name needs no words of its own.
        if !place.ends_with('*') {
            faults.push(format!("{place}: no description"));
        }
    }
    for (keyword, argument) in keywords {
        match keyword.as_str() {
            "$schema" | "description" => {}
            "type" => check_type(value, argument, place, faults),
            "minimum" if value.as_f64().is_none_or(|number| Some(number) >= argument.as_f64()) => {}
            "enum" if argument.as_array().is_some_and(|allowed| allowed.contains(value)) => {}
            "required" => {
                let missing = argument.as_array().into_iter().flatten().filter_map(Value::as_str);
                let missing = missing.filter(|key| value.is_object() && value.get(key).is_none());
                faults.extend(missing.map(|key| format!("{place}: no {key}")));
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items
                    .enumerate()
                    .for_each(|(i, item)| check(item, argument, &format!("{place}[{i}]"), faults));
            }
            // Looked at together, once.
            "additionalProperties" if keywords.contains_key("properties") => {}
            "properties" | "additionalProperties" => check_keys(value, keywords, place, faults),
            _ => faults.push(format!("{place}: {value} does not keep {keyword} {argument}")),
        }
    }
}

fn check_keys(
    value: &Value,
    keywords: &serde_json::Map<String, Value>,
    place: &str,
    faults: &mut Vec<String>,
) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let known = keywords.get("properties").and_then(|properties| properties.get(key));
        match (known, keywords.get("additionalProperties")) {
            (Some(schema), _) => check(value, schema, &format!("{place}.{key}"), faults),
            (None, Some(Value::Bool(false)) | None) => {
                faults.push(format!("{place}: {key} is not documented"))
            }
            (None, Some(schema)) => check(value, schema, &format!("{place}.*"), faults),
        }
    }
}

fn check_type(value: &Value, allowed: &Value, place: &str, faults: &mut Vec<String>) {
    let is = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    };
    let fits = allowed.as_array().map_or_else(|| is(allowed), |names| names.iter().any(is));
    if !fits {
        faults.push(format!("{place}: {value} is not {allowed}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_schema_does_not_allow_is_found() {
        let schema = json!({
            "description": "d", "type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {
                "a": { "description": "d", "type": "integer", "minimum": 0 },
                "b": { "description": "d", "type": "array", "items": { "description": "d", "type": ["string", "null"] } },
            },
        });
        assert_eq!(faults(&json!({ "a": 1, "b": ["x", null] }), &schema), [""; 0]);
        for wrong in
            [json!({}), json!({ "a": -1 }), json!({ "a": 1.5 }), json!({ "a": 1, "c": 1 }), json!([])]
        {
            assert_eq!(faults(&wrong, &schema).len(), 1, "{wrong}");
        }
        assert_eq!(faults(&json!({ "a": 1, "b": [1] }), &schema), ["$.b[0]: 1 is not [\"string\",\"null\"]"]);
        assert_eq!(
            faults(&json!(1), &json!({ "description": "d", "maximum": 0 })).len(),
            1,
            "not known here"
        );
    }
}
