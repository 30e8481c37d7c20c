/** `berth chat`: one question and its answer, or a conversation at a terminal. */
import { askChat, chatCost, costLine, type ChatMessage } from './chat-answer.ts'
import { converse } from './chat-conversation.ts'
import { parseWhole } from '../kit/flag.ts'
import { chooseModel, withNextStep } from './inference-call.ts'
import { readPrompt } from '../kit/prompt.ts'
import { paint } from '../kit/screen.ts'
import { custom } from '../kit/row.ts'
import type { Session } from '../rental/session.ts'
import type { Shell } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

const EXAMPLE = 'berth chat "Name three rivers."'

interface ChatOptions {
  readonly model?: string
  readonly system?: string
  readonly stop?: readonly string[]
  readonly quiet?: true
}

const sampling = ['max_tokens', 'temperature', 'top_p', 'seed'] as const

export const rows: readonly Row[] = [
  custom<ChatOptions>('chat', 'ask a model; without a prompt, start a conversation', {
    operation: 'createChatCompletion',
    only: ['model', ...sampling],
    flags: {
      model: '-m, --model <name>  model (default: the first available chat model)',
      max_tokens: 'longest answer, in tokens',
      temperature: 'randomness; 0 always picks the most likely token',
      top_p: 'sample only from the most likely tokens, up to this probability',
      seed: {
        text: 'seed for reproducible answers, if the engine supports it',
        parse: parseWhole(0, Number.MAX_SAFE_INTEGER),
      },
    },
    isOptional: ['model'],
    args: { '[prompt...]': 'the question; - reads standard input' },
    options: {
      '-s, --system <text>': 'system prompt: how to answer',
      '--stop <text>': { help: 'end the answer before this text; can be repeated', parse: addStop },
      '-q, --quiet': 'do not print tokens and cost',
    },
    run: runChat,
    examples: [
      EXAMPLE,
      'berth chat                        # a conversation; /exit or Ctrl-D ends it',
      'berth chat < question.txt',
      'git diff | berth chat "What does this change?" -',
    ],
  }),
]

async function runChat({ session, shell, options, args, input }: Call<ChatOptions>): Promise<void> {
  const words = (args[0] ?? []) as string[]
  const { system, stop, quiet = false } = options
  const isAtTerminal = shell.person !== undefined && process.stdout.isTTY
  const isOpen = words.length === 0 && isAtTerminal && !session.json
  const prompt = isOpen ? undefined : await readPrompt(words, EXAMPLE)
  const model = await chooseModel(session.client, 'chat', { name: options.model })
  const { model: _, ...fields } = input.parts.body ?? {}
  const parameters = { ...fields, ...(stop === undefined ? {} : { stop }) }
  if (prompt === undefined) return converse(session, shell, { model, system, sampling: parameters, quiet })
  const messages: ChatMessage[] = [
    ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
    { role: 'user', content: prompt },
  ]
  return withNextStep(session, 'chat', askOnce(session, shell, { model, messages, sampling: parameters, quiet }))
}

async function askOnce(
  session: Session,
  shell: Shell,
  { quiet, ...request }: { model: string; messages: ChatMessage[]; sampling: Record<string, unknown>; quiet: boolean },
): Promise<void> {
  const { json, client, screen } = session
  const answer = await askChat(session, request, (text) => (json ? undefined : shell.write(text)))
  if (json) {
    const { costNanoUsd } = await chatCost(client, answer)
    screen.show({ ...answer, costNanoUsd }, () => [])
  } else if (!quiet) {
    const line = costLine(answer, await chatCost(client, answer))
    shell.writeError(`${paint(shell.color.error, 'dim', line)}\n`)
  }
}

/** One value per flag: a list would swallow the prompt. */
function addStop(text: string, before: unknown): readonly string[] {
  return [...((before as string[] | undefined) ?? []), text]
}
