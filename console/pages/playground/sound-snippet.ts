/** Code that sends a form with a recording, with OpenAI's clients and with curl. */
import { inShell, lines, text } from './literal.ts'
import type { Snippets } from './snippet.ts'

/** The text fields of the form. */
export type Fields = Readonly<Record<string, string>>

/** `file`: the name of the recording, in the folder where the code runs. */
export function transcriptionSnippets(url: string, fields: Fields, file: string): Snippets {
  const parts = Object.entries(fields)
  return {
    curl: [
      `curl -sS --fail ${inShell(`${url}/v1/audio/transcriptions`)}`,
      '  -H "Authorization: Bearer $BERTH_KEY"',
      `  -F ${inShell(`file=@${file}`)}`,
      // Unlike -F, it accepts a text that begins with @ or <.
      ...parts.map(([name, value]) => `  --form-string ${inShell(`${name}=${value}`)}`),
    ].join(' \\\n'),
    python: lines(
      '# pip install openai',
      'import os',
      '',
      'from openai import OpenAI',
      '',
      `client = OpenAI(base_url=${text(`${url}/v1`)}, api_key=os.environ["BERTH_KEY"])`,
      `with open(${text(file)}, "rb") as file:`,
      '    transcription = client.audio.transcriptions.create(',
      '        file=file,',
      ...parts.map(([name, value]) => `        ${name}=${text(value)},`),
      '    )',
      'print(transcription.text)',
    ),
    typescript: lines(
      '// npm install openai; then: npx tsx transcribe.mts',
      "import { createReadStream } from 'node:fs'",
      "import OpenAI from 'openai'",
      '',
      `const client = new OpenAI({ baseURL: ${text(`${url}/v1`)}, apiKey: process.env.BERTH_KEY })`,
      'const transcription = await client.audio.transcriptions.create({',
      `  file: createReadStream(${text(file)}),`,
      ...parts.map(([name, value]) => `  ${name}: ${text(value)},`),
      '})',
      'console.log(transcription.text)',
    ),
  }
}
