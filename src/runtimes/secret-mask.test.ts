import { expect, test } from 'vitest'
import { programOf, workloadOf } from '../../test/harness/docker-runtime.ts'
import { SecretMask } from './secret-mask.ts'

const withProgram = (program: Parameters<typeof programOf>[0]) => workloadOf('one', { program: programOf(program) })

test('hides secrets and registry passwords, also as in JSON, and keeps the rest', () => {
  const mask = new SecretMask()
  const registry = { server: 'r', username: 'ada', password: 'registry-pass' }
  mask.learn([withProgram({ env: { A: 'plain' }, secrets: ['hf_token', 'hf_token_long', 'say "so"', 'x'], registry })])
  expect(mask.hide('ada plain hf_token_long registry-pass x')).toBe('ada plain *** *** x')
  expect(mask.hide(JSON.stringify({ Env: ['T=say "so"'] }))).toBe('{"Env":["T=***"]}')
})

test('hides each line of a secret with several lines, and secrets of workloads that are gone', () => {
  const mask = new SecretMask()
  mask.learn([withProgram({ secrets: ['-----BEGIN KEY-----\nAAAAAAAAAAAAAAAAAAAA\n'] })])
  mask.learn([])
  expect(mask.hide('bad line: AAAAAAAAAAAAAAAAAAAA.')).toBe('bad line: ***.')
})
