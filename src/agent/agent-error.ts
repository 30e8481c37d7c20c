/** An error that the owner of the machine can fix, with the next steps. */
export class AgentError extends Error {
  readonly next: readonly string[]

  constructor(message: string, next: readonly string[] = [], cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.next = next
  }
}
