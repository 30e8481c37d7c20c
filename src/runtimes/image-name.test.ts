import { describe, expect, test } from 'vitest'
import { isSameImage, parseImageName } from './image-name.ts'

const digest = `sha256:${'0a'.repeat(32)}`

describe('image names', () => {
  test.each([
    ['debian', '12', 'debian', '12', undefined, 'debian:12'],
    ['debian', null, 'debian', 'latest', undefined, 'debian:latest'],
    ['debian:11', null, 'debian', '11', undefined, 'debian:11'],
    ['debian:11', '12', 'debian', '12', undefined, 'debian:12'],
    ['library/debian', '12', 'library/debian', '12', undefined, 'library/debian:12'],
    ['r.example:5000/a/b', null, 'r.example:5000/a/b', 'latest', 'r.example:5000', 'r.example:5000/a/b:latest'],
    ['localhost/a', '1', 'localhost/a', '1', 'localhost', 'localhost/a:1'],
    [`r.example/a@${digest}`, null, 'r.example/a', digest, 'r.example', `r.example/a@${digest}`],
  ])('%s with tag %s', (name, tag, repository, reference, host, full) => {
    expect(parseImageName(name, tag)).toEqual({ repository, reference, host, full })
  })

  test.each([
    ['', null],
    ['A', null],
    ['a b', null],
    ['../../etc', null],
    ['a/../b', null],
    ['a', 'b/c'],
    ['a', 'x y'],
    ['a', ''],
    ['a?fromSrc=-', null],
    ['user@host.example/a', null],
    ['a@sha256:0', null],
    ['x'.repeat(300), null],
  ])('rejects %j with tag %j', (name, tag) => {
    expect(() => parseImageName(name, tag)).toThrow('is not a valid image name')
  })
})

test.each([
  ['debian:12', 'docker.io/library/debian:12', true],
  ['debian:12', 'library/debian:12', true],
  ['debian', 'debian:latest', true],
  ['debian:12', 'debian:11', false],
  ['debian:12', 'r.example/library/debian:12', false],
])('%s and %s are the same image: %s', (a, b, same) => {
  expect(isSameImage(parseImageName(a, null), parseImageName(b, null))).toBe(same)
})
