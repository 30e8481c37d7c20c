/** What keeps an agent from its work and its owner can change: what is wrong, and what to do next. */
export class AgentError extends Error {
  readonly next: readonly string[]

  constructor(message: string, next: readonly string[] = [], cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.next = next
  }
}
