/** A conversation with a model. Partial answers are kept; turns without an answer are not sent again. */
import { useEffect, useRef, useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { client } from '../../api/client.ts'
import { isStopped, newSessionId, noteRequest, problemOf } from '../../api/inference.ts'

type Usage = Reply<'createChatCompletion'>['usage']

export interface Turn {
  readonly id: number
  readonly model: string
  readonly prompt: string
  readonly state: 'waiting' | 'streaming' | 'answered' | 'stopped' | 'failed'
  readonly text: string
  /** Empty until the answer begins. */
  readonly requestId: string
  readonly usage: Usage | null
  readonly finishReason: string | null
  readonly firstTokenMs: number | null
  /** The time from the first token to the end. */
  readonly streamMs: number | null
  readonly error: ClientError | null
}

// A type, not an interface: the API accepts further fields, and only a type is assignable to that.
export type ChatMessage = { readonly role: 'system' | 'user' | 'assistant'; readonly content: string }

export interface ChatSettings {
  readonly model: string
  readonly system: string
  readonly sampling: Readonly<Record<string, number | readonly string[]>>
}

export interface Conversation {
  readonly turns: readonly Turn[]
  readonly isBusy: boolean
  readonly ask: (prompt: string, settings: ChatSettings) => void
  /** Asks a turn's question again and drops the turns after it. */
  readonly askAgain: (id: number, settings: ChatSettings) => void
  /** Removes a turn and all later ones. */
  readonly cutAt: (id: number) => void
  readonly stop: () => void
}

export function useConversation(before: readonly Turn[] = []): Conversation {
  const [turns, setTurns] = useState(before)
  const lastId = useRef(Math.max(0, ...before.map(({ id }) => id)))
  const running = useRef<AbortController>(undefined)
  const [sessionId, setSessionId] = useState(newSessionId)
  const isBusy = turns.some(({ state }) => state === 'waiting' || state === 'streaming')
  useEffect(() => () => running.current?.abort(), [])

  const begin = (before: readonly Turn[], prompt: string, settings: ChatSettings): void => {
    lastId.current += 1
    const turn = newTurn(lastId.current, prompt, settings.model)
    const controller = new AbortController()
    running.current = controller
    setTurns([...before, turn])
    const change = (more: Partial<Turn>): void =>
      setTurns((all) => all.map((one) => (one.id === turn.id ? { ...one, ...more } : one)))
    const body = { ...requestOf(settings, before, prompt), stream_options: { include_usage: true } }
    void answer({ body, sessionId, signal: controller.signal }, change).then(noteRequest)
  }
  return {
    turns,
    isBusy,
    ask: (prompt, settings) => begin(turns, prompt, settings),
    askAgain: (id, settings) => {
      const at = turns.findIndex((one) => one.id === id)
      const turn = turns[at]
      if (turn !== undefined) begin(turns.slice(0, at), turn.prompt, settings)
    },
    cutAt: (id) => {
      const earlierTurns = turns.slice(
        0,
        turns.findIndex((one) => one.id === id),
      )
      setTurns(earlierTurns)
      if (earlierTurns.length === 0) setSessionId(newSessionId())
    },
    stop: () => running.current?.abort(),
  }
}

/** The request body, without streaming options. */
export function requestOf({ model, system, sampling }: ChatSettings, before: readonly Turn[], prompt: string) {
  const { stop, ...numbers } = sampling
  return {
    model,
    messages: messagesOf(system, before, prompt),
    ...(numbers as Readonly<Record<string, number>>),
    ...(Array.isArray(stop) ? { stop: [...(stop as string[])] } : {}),
  }
}

function messagesOf(system: string, before: readonly Turn[], prompt: string): ChatMessage[] {
  return [
    ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system }]),
    ...before
      .filter(({ text }) => text !== '')
      .flatMap((turn) => [
        { role: 'user' as const, content: turn.prompt },
        { role: 'assistant' as const, content: turn.text },
      ]),
    { role: 'user' as const, content: prompt },
  ]
}

function newTurn(id: number, prompt: string, model: string): Turn {
  return {
    id,
    model,
    prompt,
    state: 'waiting',
    text: '',
    requestId: '',
    usage: null,
    finishReason: null,
    firstTokenMs: null,
    streamMs: null,
    error: null,
  }
}

/** Never rejects: errors are part of the turn. */
async function answer(
  input: Parameters<typeof client.stream<'createChatCompletion'>>[1],
  change: (more: Partial<Turn>) => void,
): Promise<void> {
  const startedAt = performance.now()
  let firstAt: number | undefined
  let text = ''
  const timing = (): Partial<Turn> => (firstAt === undefined ? {} : { streamMs: performance.now() - firstAt })
  try {
    const stream = await client.stream('createChatCompletion', input)
    change({ requestId: stream.requestId, state: 'streaming' })
    for await (const { choices, usage } of stream) {
      const [choice] = choices
      const more = choice?.delta.content ?? ''
      if (more !== '' && firstAt === undefined) {
        firstAt = performance.now()
        change({ firstTokenMs: firstAt - startedAt })
      }
      text += more
      change({
        text,
        ...(typeof choice?.finish_reason === 'string' ? { finishReason: choice.finish_reason, ...timing() } : {}),
        ...(usage === null || usage === undefined ? {} : { usage }),
      })
    }
    change({ state: 'answered' })
  } catch (error) {
    change(isStopped(error) ? { state: 'stopped', ...timing() } : { state: 'failed', error: problemOf(error) })
  }
}
