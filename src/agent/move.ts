/** Asks the server to drain, resume or remove this host, and waits for the answer. */
import type { Desired } from '../contract/agent.ts'
import { AgentError } from './agent-error.ts'
import { openConnection, type Connection, type Move, type Refusal } from './connection.ts'
import type { AgentKey, Membership } from './identity.ts'

export type HostState = Desired['state']

const MOVE_MS = 15_000

/** Sends one request at a time. The server answers with the state in its next `desired` message, or with a refusal. */
export class Mover {
  #state: HostState | undefined
  #pending: { readonly to: Move; settle(outcome: HostState | Error): void } | undefined

  ask(to: Move, connection: Pick<Connection, 'move'>): Promise<HostState> {
    if (this.#pending !== undefined)
      return Promise.reject(new AgentError('Another drain, resume or leave request is in progress.'))
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(() => this.#settle(new AgentError('The server did not respond in time.')), MOVE_MS)
      this.#pending = {
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
    if (this.#pending?.to === state) this.#settle(state)
  }

  onRefusal(refusal: Refusal): void {
    // The server no longer knows a host that has left, and may say so before it confirms the move.
    if (this.#pending?.to === 'left' && refusal.reason === 'unknown_host') return this.#settle('left')
    this.#settle(new AgentError(refusal.message))
  }

  #settle(outcome: HostState | Error): void {
    const pending = this.#pending
    this.#pending = undefined
    pending?.settle(outcome)
  }
}

/** Makes the request when no agent is running on the host, over a new connection that sends no reports. */
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
      else if (state.kind === 'refused') mover.onRefusal(state.refusal)
      else lastMessage = state.message
    },
  })
  const awaitRefusal = async (): Promise<void> => {
    const refusal = await connection.ended
    if (refusal === undefined) return
    mover.onRefusal(refusal)
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
  const promise = new Promise<void>((onResolve, onReject) => ([resolve, reject] = [onResolve, onReject]))
  return { promise, resolve, reject }
}
