/**
 * Server events for all tabs over one connection. Browsers allow six connections per host for all tabs together, and a
 * stream never ends: with one stream per tab, the seventh tab could load nothing.
 *
 * The tab that holds a lock follows the stream and broadcasts to the others. A hidden tab releases the lock and receives
 * nothing; the next holder continues after the last event. Locks require HTTPS or localhost; without them each visible
 * tab follows by itself.
 */
import { ApiError } from '../../src/client/error.ts'
import { pause } from '../../src/client/pause.ts'
import type { AccountEvent, EventRecord } from '../../src/contract/event.ts'
import { client } from './client.ts'
import { openTabs } from './tabs.ts'

/** The delay after the client's own retries, which cover a restart of the server. */
const AGAIN_MS = 5_000

export type LineEvent = EventRecord | AccountEvent

interface EventLineOptions {
  readonly of: 'account' | 'everyone'
  /** The session's key. Tabs with another key have their own line. */
  readonly keyId: string
  /** The newest event when the page started; undefined: not known. */
  readonly start: string | undefined
  readonly onEvent: (event: LineEvent) => void
  /** Connected or not. May repeat. */
  readonly onState: (isOpen: boolean) => void
  /** First connection, when an event may have been missed before it. */
  readonly onBegin: () => void
  /** Reconnected after a gap. */
  readonly onMissed: () => void
}

type Message =
  | { readonly kind: 'event'; readonly event: LineEvent }
  | { readonly kind: 'state'; readonly isOpen: boolean; readonly last: string | undefined }
  /** A new tab asks the following tab for the state. */
  | { readonly kind: 'ask' }

type News = Exclude<Message, { kind: 'ask' }>

/** Returns a function that closes it. */
export function openEventLine(options: EventLineOptions): () => void {
  const name = `berth.events.${options.of}.${options.keyId}`
  const tabs = 'locks' in navigator ? openTabs<Message>(name) : undefined
  let connection: AbortController | undefined
  let isLeading = false
  let isOpen: boolean | undefined
  let hasBegun = false
  let isBehind = false
  let last = options.start

  const receive = (message: News): void => {
    if (message.kind === 'event') {
      last = message.event.id
      return options.onEvent(message.event)
    }
    isOpen = message.isOpen
    const begins = isOpen && !hasBegun && !isBehind && mayHaveMissed(options.start, message.last)
    last = message.last ?? last
    options.onState(isOpen)
    if (isOpen && isBehind) options.onMissed()
    else if (begins) options.onBegin()
    hasBegun ||= isOpen
    isBehind = !isOpen
  }
  const broadcast = (message: News): void => {
    // A message can arrive after the line was closed or the tab hidden.
    if (connection === undefined) return
    tabs?.send(message)
    receive(message)
  }
  const follow = async (signal: AbortSignal): Promise<void> => {
    isLeading = true
    await followEvents(options.of, signal, () => last, broadcast)
    isLeading = false
  }
  const lead = async (signal: AbortSignal): Promise<void> => {
    if (tabs === undefined) return follow(signal)
    try {
      await navigator.locks.request(name, { signal }, () => follow(signal))
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }
  const onVisibility = (): void => {
    if (document.hidden) {
      connection?.abort()
      connection = undefined
      // Events are missed from here on; following starts anew when the tab is shown.
      isBehind = true
      last = undefined
    } else if (connection === undefined) {
      connection = new AbortController()
      void lead(connection.signal)
      tabs?.send({ kind: 'ask' })
    }
  }
  tabs?.listen((message) => {
    if (connection === undefined) return
    if (message.kind !== 'ask') receive(message)
    else if (isLeading && isOpen !== undefined) tabs.send({ kind: 'state', isOpen, last })
  })
  document.addEventListener('visibilitychange', onVisibility)
  onVisibility()
  return () => {
    document.removeEventListener('visibilitychange', onVisibility)
    connection?.abort()
    connection = undefined
    tabs?.close()
  }
}

/** Follows the stream after the last event, again and again until the signal. */
async function followEvents(
  of: EventLineOptions['of'],
  signal: AbortSignal,
  lastEvent: () => string | undefined,
  broadcast: (message: News) => void,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const line = {
        after: lastEvent(),
        signal,
        onOpen: (after: string) => broadcast({ kind: 'state', isOpen: true, last: after }),
        onLost: () => broadcast({ kind: 'state', isOpen: false, last: lastEvent() }),
      }
      const events: AsyncGenerator<LineEvent, void> = of === 'everyone' ? client.followAll(line) : client.follow(line)
      for await (const event of events) broadcast({ kind: 'event', event })
    } catch (error) {
      // Signed out or suspended: the next read reports it.
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return
      if (!signal.aborted) broadcast({ kind: 'state', isOpen: false, last: lastEvent() })
    }
    await pause(AGAIN_MS, signal)
  }
}

/** Another tab may have received events before this one listened. */
function mayHaveMissed(start: string | undefined, last: string | undefined): boolean {
  return start === undefined || last === undefined || BigInt(last) > BigInt(start)
}
