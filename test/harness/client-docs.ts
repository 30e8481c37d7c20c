/** The programs in docs/clients.md. */
import { readFile } from 'node:fs/promises'

/** The first one of a section in a language. */
export async function codeOf(section: string, language: 'js' | 'python' | 'sh'): Promise<string> {
  const text = await readFile('docs/clients.md', 'utf8')
  const [, after = ''] = text.split(`\n## ${section}\n`)
  const [own = ''] = after.split('\n## ')
  const [, code] = new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, 'ms').exec(own) ?? []
  if (code === undefined) throw new Error(`docs/clients.md has no ${language} in "${section}"`)
  return code
}
