/** `berth chat` against a server with a model on sale: one question, the standard input, and a real pseudo-terminal. */
import { spawn } from 'node:child_process'
import { formatUsdForPeople, nanoUsdOf } from '../../base/money.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest, type Outcome } from '../../../test/lab/cli.ts'
import { NANO_PER_INPUT, NANO_PER_OUTPUT, serveModel, type TestModel } from '../../../test/harness/inference.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

/** For people, as the command shows it; a nano-dollar has nine decimals. */
const usd = (nano: number): string => formatUsdForPeople(nanoUsdOf(BigInt(nano)))

let cli: CliTest
let model: TestModel
let slow: TestModel

beforeAll(async () => {
  cli = await startCliTest()
  model = await serveModel(cli.server, { name: 'house/chat' })
  slow = await serveModel(cli.server, { name: 'house/slow', behaviour: { words: 10_000, intervalMs: 20 } })
})
afterAll(async () => {
  await model.upstream.close()
  await slow.upstream.close()
  await cli.close()
})

const berth = (...args: string[]): Promise<Outcome> => cli.berth(args)

/** The last request to the engine. */
function lastBody(): Record<string, unknown> {
  return JSON.parse(model.upstream.requests.at(-1)?.body.toString() ?? '{}') as Record<string, unknown>
}

describe('one question', () => {
  test('prints the answer to stdout; tokens, cost and id to stderr', async () => {
    const { code, out, error } = await berth('chat', 'Name', 'three', 'rivers.')
    expect({ code, out }).toEqual({ code: 0, out: 'word0 word1 word2 word3 word4 \n' })
    expect(lastBody()).toMatchObject({ messages: [{ role: 'user', content: 'Name three rivers.' }], stream: true })
    const [, tokensIn = '', amount = '', id = ''] =
      /^(\d+) tokens? in, 5 out, (<?\$[\d.]+), (req_\w+)\n$/.exec(error) ?? []
    expect(amount).toBe(usd(Number(tokensIn) * NANO_PER_INPUT + 5 * NANO_PER_OUTPUT))
    expect((await berth('cost', id)).out).toContain(`${id}  ${amount}\n`)
  })

  test('accepts all parameters, and --quiet prints only the answer', async () => {
    const named = ['--model', 'house/chat', '--system', 'Be short.', '--max-tokens', '2', '--temperature', '0']
    const { out, error } = await berth(
      'chat',
      ...named,
      '--top-p',
      '0.5',
      '--seed',
      '7',
      '--stop',
      'END',
      '--quiet',
      'Hello',
    )
    expect({ out, error }).toEqual({ out: 'word0 word1 \n', error: '' })
    expect(lastBody()).toMatchObject({
      messages: [
        { role: 'system', content: 'Be short.' },
        { role: 'user', content: 'Hello' },
      ],
      max_tokens: 2,
      temperature: 0,
      top_p: 0.5,
      seed: 7,
      stop: ['END'],
    })
    expect((await berth('chat', '--max-tokens', '2', 'Hello again')).error).toContain('(stopped at --max-tokens')
  })

  test('prints one object with its cost for --json', async () => {
    const answer = (await cli.json('chat', 'A question of its own')) as { usage: { prompt_tokens: number } }
    expect(answer).toMatchObject({
      model: 'house/chat',
      content: 'word0 word1 word2 word3 word4 ',
      finishReason: 'stop',
      requestId: expect.stringMatching(/^req_/),
      costNanoUsd: answer.usage.prompt_tokens * NANO_PER_INPUT + 5 * NANO_PER_OUTPUT,
    })
  })

  test('prints no terminal control sequences', async () => {
    const { wordOf } = model.upstream.behaviour
    model.upstream.behaviour.wordOf = (n) => (n === 1 ? '\u001B[31mred\n' : 'a\tb ')
    const { out } = await berth('chat', 'Colours?')
    model.upstream.behaviour.wordOf = wordOf
    expect(out).toBe('a\tb \\x1b[31mred\na\tb a\tb a\tb \n')
  })

  test('lists the models when the requested one does not exist', async () => {
    const { code, out, error } = await berth('chat', '--model', 'house/none', 'Hello')
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(error).toContain('Available for chat: house/chat, house/slow.')
  })

  test('points to the balance when it is too low', async () => {
    const { key } = await cli.server.account()
    const { code, error } = await cli.berth(['chat', 'Hello', '--key', key])
    expect(code).toBe(1)
    expect(error).toContain('berth balance')
  })

  test('prints a partial answer and exits with 1 when the engine fails', async () => {
    model.upstream.behaviour.faultsOnce.push({ kind: 'reset', afterEvents: 3 })
    const { code, out, error } = await berth('chat', 'Break off')
    expect({ code, out }).toEqual({ code: 1, out: 'word0 word1 \n' })
    expect(error).toMatch(/^error: The engine failed/)
  })

  test.each([
    [['chat', ' '], 'Example: berth chat "Name three rivers."'],
    [['chat', '--temperature', '3', 'x'], 'from 0 to 2.'],
    [['chat', '--max-tokens', '0', 'x'], 'at least 1'],
    [['chat', '--seed', 'x', 'x'], 'a whole number'],
  ])('%j is wrong usage: exit code 2, and nothing on the output', async (args, message) => {
    const { code, out, error } = await cli.berth(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain(message)
  })
})

describe('the standard input', () => {
  async function piped(args: readonly string[], parts: readonly string[]): Promise<Outcome> {
    const child = spawn(process.execPath, [cli.program, ...args], { env: cli.environment() })
    let [out, error] = ['', '']
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (error += chunk.toString()))
    for (const part of parts) child.stdin.write(part)
    child.stdin.end()
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
    return { code, out, error }
  }

  test('is the prompt, and - appends it to the arguments', async () => {
    const alone = await piped(['chat', '-q', '-m', 'house/chat'], ['What is ', 'in it?\n'])
    expect(alone).toEqual({ code: 0, out: 'word0 word1 word2 word3 word4 \n', error: '' })
    expect(lastBody()).toMatchObject({ messages: [{ role: 'user', content: 'What is in it?' }] })
    await piped(['chat', '-q', '-m', 'house/chat', 'Explain:', '-'], ['a = 1\n'])
    expect(lastBody()).toMatchObject({ messages: [{ role: 'user', content: 'Explain:\n\na = 1' }] })
  })

  test('is a usage error when it is empty', async () => {
    const { code, error } = await piped(['chat'], [])
    expect(code).toBe(2)
    expect(error).toContain('No text was given.')
  })
})

describe('in a terminal', () => {
  const prompt = '\n> '

  test('a conversation keeps its context, and Ctrl-D leaves', async () => {
    const cost = / out, <?\$[\d.]+, req_\w+\s+> /
    const { code, out } = await cli.inTerminal(
      ['chat', '-m', 'house/chat', '-s', 'Be kind.'],
      [
        [prompt, 'first\r'],
        [cost, 'second \\\rline\r'],
        [cost, '/new\r'],
        ['New conversation.', '\u0004'],
      ],
    )
    expect(code).toBe(0)
    expect(out).toMatch(/\n2 answers, <?\$[\d.]+ in total\n$/)
    expect(lastBody()).toMatchObject({
      messages: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: 'first' },
        { role: 'assistant', content: 'word0 word1 word2 word3 word4 ' },
        { role: 'user', content: 'second \nline' },
      ],
    })
    const sessions = model.upstream.requests.slice(-2).map(({ headers }) => headers['x-session-id'])
    expect(new Set(sessions).size).toBe(1)
  })

  test('Ctrl-C stops the answer and not the conversation; /exit leaves', async () => {
    const { code } = await cli.inTerminal(
      ['chat', '-m', 'house/slow'],
      [
        [prompt, 'count\r'],
        ['word3 ', '\u0003'],
        [/Stopped: .*, req_\w+\s+> /, 'half\u0003'],
        ['half', '/exit\r'],
      ],
    )
    expect(code).toBe(0)
    await waitFor('the engine to be let go', () => slow.upstream.requests.at(-1)?.abortedAt !== undefined)
    expect(slow.upstream.requests).toHaveLength(1)
  })

  test('prints an error and continues the conversation', async () => {
    const { code, out } = await cli.inTerminal(
      ['chat', '-m', 'house/none'],
      [
        [prompt, 'hello\r'],
        [/error: .*\s+Available for chat: /, '/exit\r'],
      ],
    )
    expect(code).toBe(0)
    expect(out).toContain('house/chat, house/slow')
  })
})
