"""What is stored: `ottla dump` shows files, `ottla verify` checks folders, `ottla skip` leaves a record out.

dump · text_files · dump_lines   the files of a data directory, one line per entry
verify                           what is damaged, and what a broker would do about it
skip                             a record that keeps a broker from serving groups is left out
group_records                    the records of `__consumer_offsets`, decoded
read_only_files                  the disk for those who only look
"""
