import { expect, test } from 'vitest'
import { causeIn } from './refusal.ts'

test.each([
  [
    'application/json; charset=utf-8',
    '{"message":"The model is not here.","code":"NOT_FOUND"}',
    'The model is not here',
  ],
  ['application/json', '{"error":{"message":"no such revision","type":"x"}}', 'no such revision'],
  ['application/problem+json', '{"detail":"gated"}', 'gated'],
  ['application/json', '{"error":"Repository not found"}', 'Repository not found'],
  [
    'application/xml',
    '<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>It &quot;is&quot;\n not there.</Message></Error>',
    'NoSuchKey: It "is" not there',
  ],
  ['text/xml', '<Error><Code>AccessDenied</Code></Error>', 'AccessDenied'],
  ['text/plain', 'Entry not found\r\n', 'Entry not found'],
  ['text/plain', 'x'.repeat(400), 'x'.repeat(300)],
])('a refusal as %s is passed on: %s', (type, body, cause) => {
  expect(causeIn(type, body)).toBe(cause)
})

test.each([
  ['text/html', '<html><body>Not found</body></html>'],
  ['application/json', '{"message":'],
  ['application/json', 'null'],
  ['application/json', '[]'],
  ['application/json', '{"error":{"error":{"message":"deep"}}}'],
  ['application/xml', '<Error/>'],
  ['', 'anything'],
])('a refusal that says nothing to people has no cause: %s %s', (type, body) => {
  expect(causeIn(type, body)).toBeNull()
})
