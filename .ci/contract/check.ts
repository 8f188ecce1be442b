// What the clients of the scenario share.

export function args(): [base: string, key: string, limited: string] {
  const [base, key, limited] = process.argv.slice(2);
  if (base === undefined || key === undefined || limited === undefined) {
    throw new Error("usage: CLIENT BASE KEY KEY-WITH-A-LOW-LIMIT");
  }
  return [base, key, limited];
}

export function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

// typed returns its value. It does not compile where the generated type is any.
export function typed<T>(value: 0 extends 1 & T ? never : T): T {
  return value;
}
