/** User data of cloud-init in several parts: our configuration, the options of the order, the customer's own. */
import { randomBytes } from 'node:crypto'
import { encodedLines } from './shell-text.ts'

/**
 * Ours comes last and adds to the lists of the customer's: users of the customer and our login user both exist. Of values
 * that both set, the customer's count.
 */
const MERGE_TYPE = 'list(append)+dict(no_replace,recurse_list)+str()'

/** `hooks`: scripts that run at every boot, in this order. */
export function multipart(config: string, hooks: readonly string[], userData: string): string {
  const scripts = hooks.filter((script) => script !== '')
  if (scripts.length === 0 && userData.trim() === '') return config
  const boundary = `berth-${randomBytes(16).toString('hex')}`
  const parts = [
    ...scripts.map((script) => partOf('text/cloud-boothook', script)),
    ...(userData.trim() === '' ? [] : [isMime(userData) ? userData : partOf('text/plain', userData)]),
    partOf('text/cloud-config', config, `Merge-Type: ${MERGE_TYPE}\n`),
  ]
  const head = `Content-Type: multipart/mixed; boundary="${boundary}"\nMIME-Version: 1.0\n\n`
  return `${head}${parts.map((part) => `--${boundary}\n${part}\n`).join('')}--${boundary}--\n`
}

/** cloud-init detects the kind of text/plain by its first line. */
function partOf(type: string, text: string, headers = ''): string {
  const head = `Content-Type: ${type}; charset="utf-8"\nMIME-Version: 1.0\nContent-Transfer-Encoding: base64\n${headers}`
  return `${head}\n${encodedLines(text)}`
}

/** A message with several parts is a part of ours as it is. */
function isMime(userData: string): boolean {
  return /^(?:content-type|mime-version):/i.test(userData)
}
