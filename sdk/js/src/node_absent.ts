/**
 * Stands for node.ts in bundles for browsers (`browser` of package.json).
 */
import { UnsupportedError } from "./errors.js";
import type { Platform } from "./platform.js";

function absent(): never {
  throw new UnsupportedError("this bundle was made for browsers", "unsupported");
}

export const nodePlatform: Platform = {
  usualSocket: absent, tokenFor: absent, fetchFor: absent, connect: absent,
};
