/** Makes a switch exhaustive: a case that is not handled does not compile. */
export function assertNever(value: never): never {
  throw new Error(`unhandled case: ${JSON.stringify(value)}`)
}
