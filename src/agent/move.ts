/** Asks the server to drain, resume or remove this host, and waits for the answer. */
import type { Desired } from '../contract/agent.ts'
import { AgentError } from './agent-error.ts'
import { openConnection, type Connection, type Move, type Refusal } from './connection.ts'
import type { AgentKey, Membership } from './identity.ts'

export type HostState = Desired['state']

const MOVE_MS = 15_000

/** One request at a time; the answer is the state of the next `desired`, or a refusal. */
export class Mover {
  #state: HostState | undefined
  #waiting: { readonly to: Move; settle(outcome: HostState | Error): void } | undefined

  ask(to: Move, connection: Pick<Connection, 'move'>): Promise<HostState> {
    if (this.#waiting !== undefined)
      return Promise.reject(new AgentError('Another drain, resume or leave request is in progress.'))
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(() => this.#settle(new AgentError('The server did not respond in time.')), MOVE_MS)
      this.#waiting = {
        to,
        settle: (outcome) => {
          clearTimeout(deadline)
          if (outcome instanceof Error) reject(outcome)
          else resolve(outcome)
        },
      }
      if (!connection.move(to))
        this.#settle(new AgentError('The agent is not connected to the server.', ['Try again later.']))
      // A move to the current state changes nothing, so no `desired` would follow.
      if (this.#state === to) this.#settle(to)
    })
  }

  onState(state: HostState): void {
    this.#state = state
    if (this.#waiting?.to === state) this.#settle(state)
  }

  refused(refusal: Refusal): void {
    // A host that has left is unknown; the server may say that first.
    if (this.#waiting?.to === 'left' && refusal.reason === 'unknown_host') return this.#settle('left')
    this.#settle(new AgentError(refusal.message))
  }

  #settle(outcome: HostState | Error): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    waiting?.settle(outcome)
  }
}

/** When no agent is running: over a connection of its own that sends no reports. */
export async function moveDirectly(
  membership: Membership,
  key: AgentKey,
  version: string,
  to: Move,
): Promise<HostState> {
  const mover = new Mover()
  let lastMessage = ''
  const { promise: connected, resolve, reject } = withResolvers()
  const deadline = setTimeout(
    () => reject(new AgentError(`Cannot reach ${membership.server}${lastMessage === '' ? '' : `: ${lastMessage}`}.`)),
    MOVE_MS,
  )
  const connection = openConnection({
    server: membership.server,
    hostId: membership.hostId,
    installation: membership.installation,
    key,
    version,
    report: () => undefined,
    desired: ({ state }) => mover.onState(state),
    accept: (_, stream) => stream.destroy(new Error('The agent on this host is not running.')),
    state: (state) => {
      if (state.kind === 'connected') resolve()
      else if (state.kind === 'refused') mover.refused(state.refusal)
      else lastMessage = state.message
    },
  })
  const awaitRefusal = async (): Promise<void> => {
    const refusal = await connection.ended
    if (refusal === undefined) return
    mover.refused(refusal)
    reject(new AgentError(refusal.message))
  }
  void awaitRefusal()
  try {
    await connected
    return await mover.ask(to, connection)
  } finally {
    clearTimeout(deadline)
    connection.close()
  }
}

function withResolvers(): { promise: Promise<void>; resolve: () => void; reject: (error: Error) => void } {
  let resolve: () => void = () => {}
  let reject: (error: Error) => void = () => {}
  const promise = new Promise<void>((one, two) => ([resolve, reject] = [one, two]))
  return { promise, resolve, reject }
}
