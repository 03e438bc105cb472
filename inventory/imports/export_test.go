package imports

import "spoolwright/transfer"

// ReadSpoolSheet reads a file as the import of spools does.
func ReadSpoolSheet(file []byte, how transfer.Reading) (*transfer.Conversion, error) {
	sheet, err := transfer.ReadSheet(file, spoolSheets.Good)
	if err != nil {
		return &transfer.Conversion{}, err
	}
	return spoolSheets.Convert(sheet, how)
}
