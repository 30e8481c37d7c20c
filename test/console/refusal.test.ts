/** The sentence on the page to which a provider led back. Anybody can write the reason in its address. */
import { expect, test } from 'vitest'
import { reasons } from '../../src/contract/reason/reasons.ts'

/** Imported by a variable: this compilation has no types of browsers. */
const refusal = '../../console/shell/refusal.ts'
const { refusalText } = (await import(refusal)) as {
  readonly refusalText: (reason: string, provider: string) => string
}

test('names the provider', () => {
  expect(refusalText('sso_provider_down', 'Example Corp')).toContain('Example Corp')
})

test('has limits as numbers', () => {
  for (const reason of ['too_many_codes', 'too_many_codes_from_network', 'too_many_accounts'])
    expect(refusalText(reason, 'Example Corp')).toMatch(/at most \d+ /)
})

test('is a sentence for every reason, and for what is none', () => {
  const elsewhere = new Set(['sso_provider_exists', 'sso_bad_issuer'])
  const names = [...Object.keys(reasons), 'constructor', '<b>', ''].filter((name) => !elsewhere.has(name))
  for (const name of names)
    expect([name, refusalText(name, 'X')]).toEqual([name, expect.not.stringMatching(/undefined|NaN/)])
})
