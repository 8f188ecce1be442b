/**
 * An exact number, such as an amount of money or a number of hours, with the digits that the API
 * wrote: "12.50". Do not make it a number of JavaScript, which is not exact.
 */
export type Decimal = string;

/** The sum, exactly, with as many decimal places as the longest of the numbers has. */
export function add(...numbers: readonly Decimal[]): Decimal {
  const parsed = numbers.map(parse);
  const places = Math.max(0, ...parsed.map((n) => n.places));
  return format(parsed.reduce((sum, n) => sum + scaled(n, places), 0n), places);
}

/** a minus b, exactly. */
export function subtract(a: Decimal, b: Decimal): Decimal {
  const { units, places } = parse(b);
  return add(a, format(-units, places));
}

/** Compares by value, so 7.50 equals 7.5: below 0 if a is less than b, 0 if they are equal, else above 0. */
export function compare(a: Decimal, b: Decimal): number {
  const [x, y] = [parse(a), parse(b)];
  const places = Math.max(x.places, y.places);
  const difference = scaled(x, places) - scaled(y, places);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

interface Parsed {
  units: bigint;
  places: number;
}

function parse(text: Decimal): Parsed {
  const match = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) throw new TypeError(`${JSON.stringify(text)} is not a decimal number: want digits, such as 12.50`);
  const [, sign = "", whole = "", fraction = ""] = match;
  return { units: BigInt(sign + whole + fraction), places: fraction.length };
}

function scaled(n: Parsed, places: number): bigint {
  return n.units * 10n ** BigInt(places - n.places);
}

function format(units: bigint, places: number): Decimal {
  const digits = (units < 0n ? -units : units).toString().padStart(places + 1, "0");
  const whole = digits.slice(0, digits.length - places);
  return (units < 0n ? "-" : "") + (places === 0 ? whole : `${whole}.${digits.slice(-places)}`);
}
