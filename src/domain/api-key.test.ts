import { describe, expect, test } from 'vitest'
import { scopes } from '../contract/endpoint.ts'
import { effectiveScopes, holdsScope, withoutRepeats } from './api-key.ts'

describe('scopes', () => {
  test('operator includes every scope, and no other scope includes another', () => {
    for (const scope of scopes) {
      expect(holdsScope(['operator'], scope)).toBe(true)
      for (const other of scopes) {
        expect(holdsScope([scope], other)).toBe(scope === other || scope === 'operator')
      }
    }
  })

  test("limits a viewer's keys to the read scopes", () => {
    expect(effectiveScopes('viewer', ['operator'])).toEqual(['compute:read', 'billing:read'])
    expect(effectiveScopes('viewer', ['keys', 'billing:read'])).toEqual(['billing:read'])
    expect(effectiveScopes('viewer', ['inference'])).toEqual([])
    expect(effectiveScopes('member', ['keys'])).toEqual(['keys'])
  })

  test('removes repeated scopes', () => {
    expect(withoutRepeats(['keys', 'inference', 'keys'])).toEqual(['inference', 'keys'])
  })
})
