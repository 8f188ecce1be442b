import assert from "node:assert/strict";
import { test } from "node:test";
import { add, compare, subtract } from "../src/index.js";

test("sums are exact and keep their places", () => {
  assert.equal(add("0.10", "0.20"), "0.30");
  assert.equal(add("7.5", "1.25", "-10"), "-1.25");
  assert.equal(add("12345678901234567890.01", "0.99"), "12345678901234567891.00");
  assert.equal(add("-0.05", "0.02"), "-0.03");
  assert.equal(add("5", "6"), "11");
  assert.equal(add(), "0");
  assert.equal(subtract("1.00", "2.5"), "-1.50");
  assert.equal(subtract("1.00", "-2.5"), "3.50");
});

test("numbers are compared by value", () => {
  assert.equal(compare("7.50", "7.5"), 0);
  assert.equal(compare("-0.00", "0"), 0);
  assert.equal(compare("-2", "1.999"), -1);
  assert.equal(compare("0.3", "0.29999999999999999999"), 1);
});

test("what is not a decimal number is refused", () => {
  for (const text of ["", "-", ".5", "5.", "1e3", "1,5", "+1", " 1", "0x1", "Infinity", "--1"]) {
    assert.throws(() => add(text), TypeError, text);
  }
  assert.throws(() => subtract("1", "--1"), TypeError);
});
