// Does a task of its standard input, in Node, Deno or Bun: ../../scenarios/README.md.
import { text } from "node:stream/consumers";
import { fileState } from "../src/file.js";
import { perform, type Input } from "./tasks.js";

const input = JSON.parse(await text(process.stdin)) as Input;
process.stdout.write(`${JSON.stringify(await perform(input, fileState))}\n`);
