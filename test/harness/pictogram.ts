/** The folder of the image model. */
import path from 'node:path'

export const pictogramFolder = path.resolve('models', 'pictogram')
