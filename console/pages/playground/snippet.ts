/** The request as code that runs once BERTH_KEY is set. */
import { curl, lines, python, text, typescript, type Body } from './literal.ts'

const languages = ['curl', 'python', 'typescript'] as const
export type Language = (typeof languages)[number]
export type Snippets = Readonly<Record<Language, string>>

/** Parameters of the official `openai` package; others need an extra argument. */
const openAiNames: ReadonlySet<string> = new Set([
  'model',
  'messages',
  'max_tokens',
  'temperature',
  'top_p',
  'seed',
  'stop',
  'frequency_penalty',
  'presence_penalty',
])

export function chatSnippets(url: string, body: Body): Snippets {
  const namedParameters = Object.entries(body).filter(([name]) => openAiNames.has(name))
  const more = Object.entries(body).filter(([name]) => !openAiNames.has(name))
  return {
    curl: curl(`${url}/v1/chat/completions`, { ...body, stream: true }, ['-N']),
    python: lines(
      '# pip install openai',
      'import os',
      '',
      'from openai import OpenAI',
      '',
      `client = OpenAI(base_url=${text(`${url}/v1`)}, api_key=os.environ["BERTH_KEY"])`,
      'stream = client.chat.completions.create(',
      ...namedParameters.map(([name, value]) => `    ${name}=${python(value, 1)},`),
      ...(more.length === 0 ? [] : [`    extra_body=${python(Object.fromEntries(more), 1)},`]),
      '    stream=True,',
      ')',
      'for chunk in stream:',
      '    if chunk.choices:',
      '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
      'print()',
    ),
    typescript: lines(
      '// npm install openai; then: npx tsx chat.mts',
      "import OpenAI from 'openai'",
      '',
      `const client = new OpenAI({ baseURL: ${text(`${url}/v1`)}, apiKey: process.env.BERTH_KEY })`,
      ...(more.length === 0
        ? []
        : ['// Parameters beyond the OpenAI API.', `const more = ${typescript(Object.fromEntries(more), 0)}`]),
      'const stream = await client.chat.completions.create({',
      ...namedParameters.map(([name, value]) => `  ${name}: ${typescript(value, 1)},`),
      ...(more.length === 0 ? [] : ['  ...more,']),
      '  stream: true,',
      '})',
      "for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '')",
      "process.stdout.write('\\n')",
    ),
  }
}

export function imageSnippets(url: string, body: Body): Snippets {
  return fileSnippets({
    url: `${url}/v1/image/generation`,
    body,
    file: 'image.png',
    field: 'image',
    python: 'answer["images"][0]["image"]',
    typescript: ['as { images: Array<{ image: string }> }', "answer.images[0]?.image ?? ''"],
  })
}

export function speechSnippets(url: string, body: Body): Snippets {
  return fileSnippets({
    url: `${url}/v1/audio/generation`,
    body,
    file: 'speech.mp3',
    field: 'audio',
    python: 'answer["audio"]',
    typescript: ['as { audio: string }', 'answer.audio'],
  })
}

interface FileAnswer {
  readonly url: string
  readonly body: Body
  readonly file: string
  /** The field with the base64 in the response, and the expression for it in each language. */
  readonly field: string
  readonly python: string
  readonly typescript: readonly [type: string, value: string]
}

function fileSnippets({
  url,
  body,
  file,
  field,
  python: pythonValue,
  typescript: [type, value],
}: FileAnswer): Snippets {
  return {
    curl: `${curl(url, body, ['--fail'])} | sed -E 's/.*"${field}":"([^"]+)".*/\\1/' | base64 --decode > ${file}`,
    python: lines(
      'import base64',
      'import json',
      'import os',
      'import urllib.request',
      '',
      `body = ${python(body, 0)}`,
      'request = urllib.request.Request(',
      `    ${text(url)},`,
      '    data=json.dumps(body).encode(),',
      '    headers={',
      '        "Authorization": f"Bearer {os.environ[\'BERTH_KEY\']}",',
      '        "Content-Type": "application/json",',
      '    },',
      ')',
      'with urllib.request.urlopen(request) as response:',
      '    answer = json.load(response)',
      `with open("${file}", "wb") as file:`,
      `    file.write(base64.b64decode(${pythonValue}))`,
    ),
    typescript: lines(
      `// npx tsx ${file.replace(/\..*/, '')}.mts`,
      "import { writeFile } from 'node:fs/promises'",
      '',
      `const body = ${typescript(body, 0)}`,
      `const response = await fetch(${text(url)}, {`,
      "  method: 'POST',",
      // eslint-disable-next-line no-template-curly-in-string
      "  headers: { Authorization: `Bearer ${process.env.BERTH_KEY}`, 'Content-Type': 'application/json' },",
      '  body: JSON.stringify(body),',
      '})',
      'if (!response.ok) throw new Error(await response.text())',
      `const answer = (await response.json()) ${type}`,
      `await writeFile('${file}', Buffer.from(${value}, 'base64'))`,
    ),
  }
}
