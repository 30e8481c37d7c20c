/** The programs and settings in the docs of clients. */
import { readFile } from 'node:fs/promises'

/** The first one of a section in a language, or that with this number. */
export async function codeOf(
  section: string,
  language: 'js' | 'python' | 'sh' | 'toml',
  { file = 'docs/clients.md', number = 0 } = {},
): Promise<string> {
  const text = await readFile(file, 'utf8')
  const [, after = ''] = text.split(`\n## ${section}\n`)
  const [own = ''] = after.split('\n## ')
  const blocks = [...own.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, 'gms'))]
  const code = blocks[number]?.[1]
  if (code === undefined) throw new Error(`${file} has no ${language} in "${section}"`)
  return code
}
