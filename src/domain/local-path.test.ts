import { describe, expect, test } from 'vitest'
import { localPath } from './local-path.ts'

describe('promise 11: only paths of this server', () => {
  test.each([
    '/',
    '/rentals',
    '/rentals?state=Running&q=a%20b#top',
    '/models/owner%2Fname?next=//x',
    '/a//b',
    '/a/../b',
  ])('%s', (path) => {
    expect(localPath(path)).toBe(path)
  })

  test.each([
    undefined,
    '',
    'rentals',
    '//x',
    '///x',
    '/\\x',
    '\\\\x',
    'https:x',
    'https://x',
    'javascript:alert(1)',
    ' /x',
    '/ x',
    '/\t/x',
    '/\u0000',
    '/a\nb',
    '/%2Fx',
    '/%5Cx',
    '/%09/x',
    '/%0D%0Ax',
    '/%',
    '/%ff',
    '/.//x',
    '/./\\x',
    '/a/..//x',
    '/%2e//x',
    '/a/%2E%2e//x?y',
    `/${'a'.repeat(2_048)}`,
  ])('%j leads to the first page', (path) => {
    expect(localPath(path)).toBe('/')
  })
})
