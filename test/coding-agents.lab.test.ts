/** P67: Codex and Claude Code with the settings of docs/clients.md and docs/customer/mcp.md. */
import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { codeOf } from './harness/client-docs.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { removeFolder } from './harness/leftover.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { codingAgents } from './lab/coding-agents.ts'
import { needs } from './needs.ts'

needs('npm')

const INSTALL_MS = 10 * 60_000
const AGENT_MS = 5 * 60_000
const ANSWER = 'word0 word1 word2 word3 word4'
const configuration = { file: 'docs/customer/mcp.md' }

let server: TestServer
let model: TestModel
let home: string
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  const programs = await codingAgents()
  server = await testServer({ env: { BERTH_DRIVERS: 'mock' } })
  model = await serveModel(server, {
    name: 'qwen3-8b',
    model: { supportsTools: true, contextTokens: 131_072 },
    behaviour: { tokenizer: 'vllm', words: 5 },
  })
  home = await mkdtemp(path.join(os.tmpdir(), 'berth-agents-'))
  await mkdir(path.join(home, '.codex'))
  const { key } = await server.account({ usd: '1' })
  env = {
    PATH: `${programs}:${process.env['PATH']}`,
    HOME: home,
    BERTH_URL: server.url,
    BERTH_KEY: key,
    NO_COLOR: '1',
    // No reports, no updates.
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  }
}, INSTALL_MS)
afterAll(async () => {
  await server?.close()
  await model?.upstream.close()
  if (home !== undefined) await removeFolder(home)
})

async function runScript(script: string): Promise<string> {
  const child = spawn('bash', ['-euc', script], { cwd: home, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise((resolve) => child.once('close', resolve)),
  ])
  expect({ code, err }).toEqual({ code: 0, err: expect.any(String) })
  return out
}

/** What the model was sent. */
const prompts = (): string[] => model.upstream.requests.map(({ body }) => body.toString())

test('P67: Codex answers, and has the tools of agents', { timeout: AGENT_MS }, async () => {
  const provider = (await codeOf('OpenAI Responses', 'toml')).replace('https://berth.example.com', server.url)
  const tools = (await codeOf('Configuration', 'toml', configuration)).replace('http://127.0.0.1:8420', server.url)
  expect([provider, tools].every((one) => one.includes(server.url))).toBe(true)
  await writeFile(path.join(home, '.codex', 'config.toml'), `${provider}\n${tools}`)
  expect((await runScript('codex exec --skip-git-repo-check "Say hello."')).trim()).toBe(ANSWER)
  const [prompt = ''] = prompts().filter((one) => one.includes('Say hello.'))
  expect(prompt).toContain('search_offers')
})

test('P67: Claude Code answers, and has the tools of agents', { timeout: AGENT_MS }, async () => {
  const settings = (await codeOf('Anthropic', 'sh', { number: 1 })).split('\n')
  expect(settings.findLast((line) => line !== '')).toBe('claude')
  const exported = settings.filter((line) => line.startsWith('export ')).join('\n')
  const [add = ''] = (await codeOf('Configuration', 'sh', configuration)).split('\n')
  expect(add).toMatch(/^claude mcp add --transport http /)
  await runScript(add)
  expect(await runScript('claude mcp list')).toMatch(/^berth: .*Connected$/m)
  expect((await runScript(`${exported}\nclaude -p "Say good night."`)).trim()).toBe(ANSWER)
  const asked = prompts().filter((one) => one.includes('Say good night.') && one.includes('"tools"'))
  expect(asked.some((one) => one.includes('search_offers'))).toBe(true)
})
