/** `berth chat`: one question with its answer, or a conversation where someone sits at a terminal and asks nothing. */
import { InvalidArgumentError, type Command } from 'commander'
import { askChat, chatCost, costLine, type ChatMessage } from './chat-answer.ts'
import { converse } from './chat-conversation.ts'
import { chooseModel, withModels } from './inference-call.ts'
import { parseModelName, parseTokens } from './model-option.ts'
import { readPrompt } from './prompt.ts'
import { paint } from './screen.ts'
import type { Run, Session } from './session.ts'
import type { Shell } from './shell.ts'

const EXAMPLE = 'berth chat "Name three rivers."'

interface ChatOptions {
  readonly model?: string
  readonly system?: string
  readonly maxTokens?: number
  readonly temperature?: number
  readonly topP?: number
  readonly seed?: number
  readonly stop?: readonly string[]
  readonly quiet?: true
}

export function addChatCommands(program: Command, run: Run, shell: Shell): void {
  const chat = program
    .command('chat')
    .description('ask a model; without a prompt, a conversation')
    .argument('[prompt...]', 'what to ask; - stands for the standard input')
    .option('-m, --model <name>', 'which model (the first chat model on sale)', parseModelName)
    .option('-s, --system <text>', 'how it is to answer')
    .option('--max-tokens <n>', 'the longest answer', parseTokens)
    .option('--temperature <n>', '0 takes the likeliest word each time', parseDecimal(0, 2))
    .option('--top-p <n>', 'only the likeliest words, up to this share', parseDecimal(0, 1))
    .option('--seed <n>', 'the same draw again, as far as the engine can', parseSeed)
    .option('--stop <text>', 'end the answer before it; may be given again', addStop)
    .option('-q, --quiet', 'do not tell tokens and cost')
    .addHelpText(
      'after',
      `
Examples:
  ${EXAMPLE}
  berth chat                        a conversation; /exit or Ctrl-D leaves
  berth chat < question.txt
  git diff | berth chat "What does this change?" -`,
    )
  chat.action(
    run('customer', async (session) => {
      const options = chat.opts<ChatOptions>()
      // Somebody types, and sees what is written.
      const isAtTerminal = shell.person !== undefined && process.stdout.isTTY
      const isOpen = chat.args.length === 0 && isAtTerminal && !session.json
      const prompt = isOpen ? undefined : await readPrompt(chat.args, EXAMPLE)
      const { system, quiet = false } = options
      const model = await chooseModel(session.client, 'chat', { named: options.model })
      const sampling = samplingOf(options)
      if (prompt === undefined) return converse(session, shell, { model, system, sampling, quiet })
      const messages: ChatMessage[] = [
        ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
        { role: 'user', content: prompt },
      ]
      return withModels(session, 'chat', askOnce(session, shell, { model, messages, sampling, quiet }))
    }),
  )
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
    shell.writeError(`${paint(shell.colour.error, 'dim', line)}\n`)
  }
}

/** Given for each one, with those before it: a list of words would take the prompt for one of its own. */
function addStop(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text]
}

function samplingOf({ maxTokens, temperature, topP, seed, stop }: ChatOptions): Record<string, unknown> {
  return {
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(seed === undefined ? {} : { seed }),
    ...(stop === undefined ? {} : { stop }),
  }
}

export function parseDecimal(least: number, most: number): (text: string) => number {
  return (text) => {
    const n = /^\d{1,4}(\.\d{1,6})?$/.test(text) ? Number.parseFloat(text) : -1
    if (n < least || n > most) throw new InvalidArgumentError(`From ${least} to ${most}.`)
    return n
  }
}

export function parseSeed(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('A whole number, such as 7.')
  return Number.parseInt(text, 10)
}
