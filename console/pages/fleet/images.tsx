/** Images that virtual machines start from: hosts fetch one once and hold it against its checksum. */
import { localDate } from '../../../src/view/time.ts'
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall, FormDialog } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'

type Image = Reply<'listBaseImages'>['images'][number]

const arches = ['x64', 'arm64'] as const

export function FleetImages() {
  const images = useCall('listBaseImages')
  const [isAdding, setAdding] = useState(false)
  const [going, setGoing] = useState<Image | undefined>()
  const add = (
    <Button look="primary" onClick={() => setAdding(true)}>
      Add an image
    </Button>
  )
  return (
    <Card title="Base images" actions={add}>
      <Answer of={images}>
        {(reply) => (
          <Table
            label="Base images"
            columns={columnsOf(setGoing)}
            rows={reply.images}
            rowKey={(image) => image.name}
            empty={
              <Empty title="No image is named yet">
                Virtual machines then start from the small image that each host builds for itself. Name a cloud image,
                such as Debian or Ubuntu, to start from that.
              </Empty>
            }
          />
        )}
      </Answer>
      {isAdding && <ImageForm onClose={() => setAdding(false)} />}
      {going !== undefined && <DeleteImage image={going} onClose={() => setGoing(undefined)} />}
    </Card>
  )
}

function columnsOf(remove: (image: Image) => void): ReadonlyArray<Column<Image>> {
  return [
    {
      name: 'name',
      header: 'Name',
      cell: (image) => (
        <span className="flex flex-wrap items-center gap-2">
          <span className="font-medium">{image.name}</span>
          {image.isDefault && <Badge tone="info">default</Badge>}
        </span>
      ),
    },
    { name: 'arch', header: 'Processor', cell: (image) => image.arch },
    { name: 'user', header: 'Log in as', cell: (image) => image.loginUser },
    {
      name: 'source',
      header: 'Comes from',
      cell: (image) => (
        <span className="break-all" title={`sha256 ${image.sha256}`}>
          {image.source}
        </span>
      ),
    },
    { name: 'created', header: 'Since', wideOnly: true, cell: (image) => localDate(image.createdAt) },
    {
      name: 'delete',
      header: <span className="sr-only">Delete</span>,
      align: 'right',
      cell: (image) => (
        <Button look="quiet" aria-label={`Delete ${image.name}`} onClick={() => remove(image)}>
          Delete
        </Button>
      ),
    },
  ]
}

function DeleteImage({ image, onClose }: { image: Image; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Delete ${image.name}`}
      action="Delete"
      operation="deleteBaseImage"
      input={{ params: { id: image.name } }}
      refreshes={['listBaseImages']}
      done={`${image.name} is forgotten.`}
      onClose={onClose}
    >
      Machines that have started from it run on. New ones cannot start from it any more.
    </ConfirmCall>
  )
}

function ImageForm({ onClose }: { onClose: () => void }) {
  const form = useCallForm('addBaseImage', {
    refreshes: ['listBaseImages'],
    initial: { name: '', source: '', sha256: '', loginUser: '', arch: 'x64', isDefault: false },
    body: ({ sha256, arch, ...values }) => ({
      ...values,
      sha256: sha256.trim().toLowerCase(),
      arch: arch as Image['arch'],
    }),
    onDone: (image) => {
      toast(`${image.name} is there.`)
      onClose()
    },
  })
  return (
    <FormDialog title="Add a base image" form={form} action="Add it" onClose={onClose}>
      <TextField label="Name" hint="What orders call it: debian-12" {...form.text('name')} />
      <TextField label="Comes from" hint="https://…, or file:/… on the hosts themselves" {...form.text('source')} />
      <TextField label="SHA-256" hint="64 hexadecimal digits, as sha256sum prints them" {...form.text('sha256')} />
      <TextField label="Log in as" hint="The user that its cloud-init makes: debian" {...form.text('loginUser')} />
      <SelectField
        label="Processor"
        choices={arches.map((value) => ({ value, label: value }))}
        {...form.text('arch')}
      />
      <CheckField
        label="For orders that name none"
        hint="There is one of each processor; it takes the place of the one before."
        {...form.check('isDefault')}
      />
    </FormDialog>
  )
}
