/**
 * `npm run python`: writes the part of the Python package that follows from the contract, and the synchronous form of what
 * is written by hand in `_aio/`. The build of the package runs it (python/hatch_build.py); nothing of it is committed.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import packageJson from '../package.json' with { type: 'json' }
import { pythonApi } from './python-operations.ts'
import { writeResources } from './python-resources.ts'
import { makeShapeWriter } from './python-shapes.ts'
import { syncOf } from './python-sync.ts'
import { makeTypeWriter } from './python-types.ts'

const source = new URL('../python/src/berth_client/', import.meta.url)
const folder = new URL('_generated/', source)
const { operations, components, followed } = pythonApi()
const types = makeTypeWriter(components)
const shapes = makeShapeWriter(components)
for (const event of followed) types.answer(event, 'event')
const { table, resources } = writeResources(operations, types, shapes)

const future = 'from __future__ import annotations\n'
const modelHead = `from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from .._model import BerthModel, Number, Usd
from .._model import UnknownObject as UnknownObject
from . import choices
`
const inputHead = `${future}
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict

from .._inputs import FileInput, Time, Usd
from . import choices
`
const tableHead = `${future}
from typing import TYPE_CHECKING, Any

from .._operation import Operation

if TYPE_CHECKING:
    from . import models
`
const resourceHead = `${future}
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

from .._inputs import OMIT, Omit
from .._generated import operations
from . import follow, waits
from .pages import AsyncPages
from .resource import Resource

if TYPE_CHECKING:
    from .._generated import choices, inputs
    from .._generated import models as models_
    from .._inputs import FileInput, Time, Usd
`
const note = (text: string): string => `"""${text} Written by \`npm run python\`."""\n\n`
const allOf = (names: readonly string[]): string =>
  `__all__ = [\n${names
    .toSorted()
    .map((name) => `    "${name}",\n`)
    .join('')}]\n`

function write(name: string, text: string): void {
  writeChanged(new URL(name, folder), `${text.trimEnd()}\n`)
}

/** A file that stays as it is can be read by another build meanwhile. */
function writeChanged(file: URL, text: string): void {
  if (!existsSync(file) || readFileSync(file, 'utf8') !== text) writeFileSync(file, text)
}

mkdirSync(folder, { recursive: true })
write('__init__.py', '"""What follows from the contract. Written by `npm run python`."""')
write('version.py', `${note('The version of this package.')}VERSION = "${packageJson.version}"`)
const choices = types.choices()
write(
  'choices.py',
  `${note('Values to choose from. A newer server may have more.')}from typing import Literal, TypeAlias\n\n${choices}`,
)
write('models.py', `${note('What the server answers.')}${modelHead}\n${allOf(types.modelNames())}\n\n${types.models()}`)
write('inputs.py', `${note('Values within requests.')}${inputHead}\n${allOf(types.inputNames())}\n\n${types.inputs()}`)
write(
  'operations.py',
  `${note('Every operation.')}${tableHead}\n${table}\n\nSHAPES: dict[str, Any] = {\n${shapes.components()}\n}`,
)
const asyncResources = `${note('A method for each operation.')}${resourceHead}\n\n${resources}`
writeChanged(new URL('_aio/resources.py', source), asyncResources)

const sync = new URL('_sync/', source)
mkdirSync(sync, { recursive: true })
const names = readdirSync(new URL('_aio/', source)).filter((name) => name.endsWith('.py'))
for (const name of readdirSync(sync).filter((one) => one.endsWith('.py') && !names.includes(one))) {
  rmSync(new URL(name, sync))
}
for (const name of names) {
  writeChanged(new URL(name, sync), syncOf(readFileSync(new URL(`_aio/${name}`, source), 'utf8')))
}
process.stdout.write(`${operations.length} operations, ${types.modelNames().length} models\n`)
