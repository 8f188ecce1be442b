// Package jsonform reads and writes Go structs as JSON objects whose form is
// fixed to the byte.
//
// A record type has one table, a Fields, that lists its fields in order: name, form, where the
// struct keeps the value, and its documentation. Everything else follows from the table:
//
//   - Fields.Decode strictly decodes an object from outside and reports every fault with the
//     field's path and the expected form.
//   - Fields.AppendGiven writes the canonical form: only the fields that were
//     given, in table order. Equal values give equal bytes.
//   - Fields.AppendPart writes a record in parts, so that the fields behind one permission can be
//     stored and left out separately. Fields.ReadPart reads back exactly what was written.
//   - Fields.Describe lists the fields for documentation.
//
// The package defines no forms. The caller's Form says which texts a field accepts, and the caller
// can add value types with Value and Input.
//
// Promises: invalid JSON, invalid UTF-8, unpaired surrogates and nesting deeper than 32 levels are
// errors, never repaired. No number passes through a float. A decoded record may share memory with
// its input text. The package keeps no state, so everything may be used concurrently.
package jsonform
