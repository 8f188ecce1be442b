import { open, readFile, rename, rm } from "node:fs/promises";
import type { State } from "./list.js";

/**
 * Keeps the place of a follower in the file of this name, which it replaces as a whole. Without a
 * file, the follower begins at the start. It needs Node, Deno or Bun.
 */
export function fileState(name: string): State {
  return {
    async load() {
      try {
        return (await readFile(name, "utf8")).trim();
      } catch (error) {
        if ((error as { code?: unknown }).code === "ENOENT") return undefined;
        throw error;
      }
    },
    async save(cursor) {
      const made = `${name}.${crypto.randomUUID()}`;
      try {
        const file = await open(made, "wx", 0o600);
        try {
          await file.writeFile(`${cursor}\n`);
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(made, name); // after a power cut the old place may be back, which is safe
      } catch (error) {
        await rm(made, { force: true });
        throw error;
      }
    },
  };
}
