/**
 * A conversation in a terminal. Ctrl-C stops an answer, and the part that came stays in the conversation. After an error
 * the conversation continues.
 */
import { randomUUID } from 'node:crypto'
import readline from 'node:readline'
import { formatUsdForPeople, sumUsd, type NanoUsd } from '../../base/money.ts'
import { count } from '../../view/number.ts'
import { askChat, chatCost, costLine, type ChatAnswer, type ChatMessage } from './chat-answer.ts'
import { explain, report } from '../kit/failure.ts'
import { withNextStep } from './inference-call.ts'
import { paint } from '../kit/screen.ts'
import type { Session } from '../rental/session.ts'
import type { Shell } from '../kit/shell.ts'

/** Lines typed during an answer. More are dropped. */
const MAX_PENDING_LINES = 1_000
const PROMPT = '> '

export interface Conversation {
  readonly model: string
  readonly system: string | undefined
  readonly sampling: Readonly<Record<string, unknown>>
  readonly quiet: boolean
}

const help = [
  '/new   start a new conversation',
  '/exit  leave; Ctrl-D does the same',
  'Ctrl-C stops an answer. End a line with \\ to continue it on the next.',
]

export async function converse(session: Session, shell: Shell, options: Conversation): Promise<void> {
  const { model, system, quiet } = options
  const note = (text: string): void => shell.writeError(`${paint(shell.color.error, 'dim', text)}\n`)
  const first: ChatMessage[] = system === undefined ? [] : [{ role: 'system', content: system }]
  let messages = first
  const costs: NanoUsd[] = []
  const keyboard = openKeyboard(() => note('To leave: /exit or Ctrl-D'))
  const sessionId = randomUUID()
  note(`${model}. For help: /help. To leave: Ctrl-D`)
  try {
    for (;;) {
      const text = await keyboard.next()
      if (text === undefined || text === '/exit' || text === '/quit') break
      if (text === '') continue
      if (/^\/[a-z]+$/.test(text)) {
        if (text === '/new') messages = first
        for (const line of text === '/new' ? ['New conversation.'] : help) note(line)
        continue
      }
      const prompt: ChatMessage[] = [...messages, { role: 'user', content: text }]
      const request = { model, messages: prompt, sampling: options.sampling, sessionId }
      const answer = await answerOf(session, shell, keyboard, request)
      if (answer === undefined) continue
      if (answer.content !== '') messages = [...prompt, { role: 'assistant', content: answer.content }]
      if (quiet) continue
      const cost = await chatCost(session.client, answer)
      if (cost.cost !== undefined) costs.push(cost.cost)
      note(costLine(answer, cost))
    }
  } finally {
    keyboard.close()
  }
  if (costs.length > 1) note(`${count(costs.length, 'answer')}, ${formatUsdForPeople(sumUsd(costs))} in total`)
}

/** Returns undefined if the request failed; the error has been printed. */
async function answerOf(
  session: Session,
  shell: Shell,
  keyboard: Keyboard,
  request: Parameters<typeof askChat>[1],
): Promise<ChatAnswer | undefined> {
  const stop = new AbortController()
  keyboard.onStop(() => stop.abort())
  try {
    const work = askChat(session, { ...request, signal: stop.signal }, (text) => shell.write(text))
    return await withNextStep(session, 'chat', work)
  } catch (error) {
    report(shell, explain(error, session), false)
    return undefined
  } finally {
    keyboard.onStop(undefined)
  }
}

interface Keyboard {
  /** The next line, trimmed. undefined: the input has ended. */
  next(): Promise<string | undefined>
  /** Ctrl-C aborts this while an answer arrives. */
  onStop(stop: (() => void) | undefined): void
  close(): void
}

function openKeyboard(onIdleStop: () => void): Keyboard {
  const lines = readline.createInterface({ input: process.stdin, output: process.stdout, prompt: PROMPT })
  const typed: string[] = []
  let begun: string[] = []
  let isOver = false
  let stop: (() => void) | undefined
  let waiting: ((text: string | undefined) => void) | undefined
  const deliver = (text: string | undefined): void => {
    const resolve = waiting
    waiting = undefined
    if (resolve !== undefined) resolve(text)
    else if (text !== undefined && typed.length < MAX_PENDING_LINES) typed.push(text)
  }
  lines.on('line', (line) => {
    begun.push(line.replace(/\\$/, ''))
    if (line.endsWith('\\')) return lines.prompt()
    const text = begun.join('\n').trim()
    begun = []
    deliver(text)
  })
  lines.on('close', () => {
    isOver = true
    stop?.()
    deliver(undefined)
  })
  lines.on('SIGINT', () => {
    if (stop !== undefined) return stop()
    begun = []
    const wasEmpty = lines.line === ''
    lines.write(null, { ctrl: true, name: 'e' })
    lines.write(null, { ctrl: true, name: 'u' })
    process.stdout.write('\n')
    if (wasEmpty) onIdleStop()
    lines.prompt()
  })
  return {
    next: () =>
      new Promise((resolve) => {
        if (typed.length > 0 || isOver) return resolve(typed.shift())
        waiting = resolve
        lines.prompt()
      }),
    onStop: (work) => {
      stop = work
    },
    close: () => {
      if (!isOver) lines.close()
      else process.stdout.write('\n')
    },
  }
}
