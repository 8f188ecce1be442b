// Package jsonform reads and writes Go structs as JSON objects whose form is
// fixed to the byte.
//
// A record type has one table, a Fields, that lists its fields in order: name,
// form, where the value is kept in the struct, and what documentation says about
// it. Everything else follows from the table:
//
//   - Fields.Decode reads an object that came from outside, strictly, and
//     reports every fault with the field's path and the form wanted.
//   - Fields.AppendGiven writes the canonical form: only the fields that were
//     given, in table order. Equal values give equal bytes.
//   - Fields.AppendPart and Fields.ReadPart write a record in parts, so that the
//     fields behind one permission can be stored and left out on their own, and
//     read back exactly what was written.
//   - Fields.Describe lists the fields for documentation.
//
// The package knows no forms of its own: its user says with a Form which texts
// a field takes, and can add value types with Value and Input.
//
// Promises: invalid JSON, invalid UTF-8, unpaired surrogates and nesting deeper
// than 32 levels are errors, never repaired. No number passes through a float.
// What a record holds after decoding may share memory with the text it came
// from. Nothing here keeps state, so everything may be used concurrently.
package jsonform
